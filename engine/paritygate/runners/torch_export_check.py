"""Whether an exported program can be loaded without running anything that its file says.

`torch.export.load` unpickles freely (sample inputs, weights and constants that were pickled, opaque
objects), loads compiled libraries, evaluates expressions of sizes as Python, makes Python source of
names, and looks operators up by any path below `torch`. So an archive is loaded only if all it
contains is known to be harmless: tensors as plain bytes, sample inputs that torch's restricted
unpickler takes, operators of the namespaces below, sizes that are arithmetic.
"""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Iterator
from typing import Any

_ALLOWED_RECORDS = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/\w+|\.format_version"
    r"|\.storage_alignment|models/model\.json|data/sample_inputs/model\.pt"
    r"|data/(weights|constants)/(model_(weights|constants)_config\.json|(weight|tensor)_\d+)"
    r"|extra/.*"
)
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|quantized|quantized_decomposed|torchvision)\.(?!__)\w+(\.(?!__)\w+)?"
    r"|torch\.ops\.higher_order\.(?!__)\w+"
    r"|torch\.(_sym_sqrt|sym_(int|float|max|min|not|ite|sum))"
    r"|math\.[a-z]\w*"
    r"|_operator\.(abs|add|and_|eq|floordiv|ge|getitem|gt|index|invert|le|lshift|lt|mod|mul|ne|neg"
    r"|not_|or_|pos|pow|rshift|sub|truediv|xor)"
)
_TOUCHES_FILES = re.compile(r"\.(from_file|save|load\w*)\b")
_QUOTED = re.compile(r"Symbol\('([a-z]{1,4}\d+)'(?:, [a-z]+=True)*\)")
_QUOTED_NUMBER = re.compile(r"Float\('([\d.]+)', precision=\d+\)")
_SYMBOLS = re.compile(r"[a-z]{1,4}\d+")
_FUNCTIONS = re.compile(
    r"Add|Mul|Pow|Mod|Max|Min|Abs|Integer|Rational|Float|floor|ceiling|Eq|Ne|Ge|Gt|Le|Lt|And"
    r"|Or|Not|Equality|Unequality|GreaterThan|LessThan|StrictGreaterThan|StrictLessThan"
    r"|BooleanTrue|BooleanFalse|true|false|True|False|oo|zoo|int_oo|FloorDiv|ModularIndexing"
    r"|Where|PythonMod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift|PowByNatural"
    r"|FloatPow|FloatTrueDiv|IntTrueDiv|TruncToFloat|TruncToInt|RoundToInt|RoundDecimal|ToFloat"
    r"|Identity|IsNonOverlappingAndDenseIndicator"
)
_EXPRESSION = re.compile(r"(?>\d++(?:\.\d*+)?|[A-Za-z_]\w*+|[-+*/(),<>=&|~% ])*+")
# What a condition on the sizes of inputs is made of, such as `L['x'].size()[0] <= 64`.
_GUARDS = (
    *(ast.Expression, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.BinOp, ast.operator),
    *(ast.UnaryOp, ast.unaryop, ast.Constant, ast.Subscript, ast.Name, ast.Load, ast.Call),
    ast.Attribute,
)
_GUARD_ATTRIBUTES = ("size", "stride", "storage_offset", "inf", "isnan")
_GUARD_NAMES = re.compile(r"L|math|inf|Min|Max|Mod|FloorDiv|PythonMod|CleanDiv|Eq|Ne|And|Or|Not")
_EXPRESSION_LIMIT = 4_000
_TEXT = re.compile(r"[\w.\-: /,+*()<>=&|~%\[\]@]*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_TREES = ("builtins.dict", "builtins.list", "builtins.tuple", "collections.OrderedDict")
_NOT_RUN = ("metadata", "stack_trace")


class RefusedError(Exception):
    """Why an archive isn't loaded: a sentence that goes on after "the exported program"."""


def check_archive(path: str) -> None:
    """Refuse an archive in which something could be run as it is loaded.

    It is read by torch's own reader, which is what loads it afterwards.

    Raises:
        RefusedError: with what was found.
        RuntimeError: torch can't read it.
    """
    import torch

    reader = torch._C.PyTorchFileReader(path)
    records = [str(name) for name in reader.get_all_records()]
    odd = sorted(name for name in records if not _ALLOWED_RECORDS.fullmatch(name))
    if odd or len({name.lower() for name in records}) != len(records):
        raise RefusedError(
            f"holds {odd[0] if odd else 'a record twice'!r}, which isn't looked at: compiled "
            "libraries, pickled weights and several models in one file aren't loaded; save it anew "
            "with torch.export.save(torch.export.export(model.eval(), ...), path)"
        )
    _check_tensors(reader, records)
    if "data/sample_inputs/model.pt" in records:
        _check_sample_inputs(torch, reader.get_record("data/sample_inputs/model.pt"))
    if "models/model.json" not in records:
        raise RefusedError("has no models/model.json")
    _check_program(json.loads(reader.get_record("models/model.json")))


def _check_tensors(reader: Any, records: list[str]) -> None:
    for kind, prefix in (("weights", "weight_"), ("constants", "tensor_")):
        name = f"data/{kind}/model_{kind}_config.json"
        if name not in records:
            raise RefusedError(
                f"has no {name}; save it anew with torch.export.save of torch 2.9 or newer"
            )
        config = json.loads(reader.get_record(name))["config"]
        for tensor, entry in config.items():
            if not re.fullmatch(r"[\w.\-]+", tensor):
                raise RefusedError(f"has a tensor of the name {tensor!r}")
            is_plain = re.fullmatch(rf"{prefix}\d+", str(entry["path_name"]))
            if entry["use_pickle"] is not False or not is_plain:
                raise RefusedError(
                    f"pickles {tensor!r} of its {kind}, which isn't unpickled; make it a plain "
                    "tensor (no subclass, no script object) before torch.export.export"
                )


def _check_sample_inputs(torch: Any, pickled: bytes) -> None:
    """What torch's restricted unpickler takes, it takes again; else torch would unpickle freely."""
    if not pickled:
        return
    try:
        args, kwargs = torch.load(io.BytesIO(pickled), weights_only=True)
        texts = [key for key in _keys((args, kwargs)) if not re.fullmatch(r"[\w.\- ]+", key)]
    except Exception as e:
        raise RefusedError(
            "has sample inputs that aren't tensors and numbers alone, which aren't unpickled "
            f"({_first_line(e)}); set program.example_inputs = None before torch.export.save"
        ) from None
    if texts:
        raise RefusedError(f"has sample inputs with the key {texts[0]!r}")


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item)


def _check_program(program: Any) -> None:
    for key, value in _values("", program):
        if key in ("in_spec", "out_spec"):
            _check_tree(json.loads(value)[1])
        elif key == "expr_str":
            _check_expression(value)
        elif key in ("target", "as_operator") and "." in value and not _is_fqn(key, value):
            _check_operator(value)
        elif key == "guards_code":
            _check_guard(value)
        elif key in ("class_fqn", "as_custom_obj"):
            raise RefusedError("holds a script object, which isn't loaded")
        elif not _TEXT.fullmatch(value) or "__import__" in value:
            raise RefusedError(f"holds the text {value[:80]!r} as {key!r}")
        elif key == "name" and value and not _IDENTIFIER.fullmatch(value):
            raise RefusedError(f"has a tensor or argument named {value[:80]!r}")
    for node in _nodes(program):
        target = node.get("target")
        if not isinstance(target, str):
            raise RefusedError("has a node without an operator")
        _check_operator(target)


def _values(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every text with its key, but for descriptions that nothing is made of."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            if not _TEXT.fullmatch(name):
                raise RefusedError(f"holds the key {name[:80]!r}")
            if name not in _NOT_RUN:
                yield from _values(name, item)
    elif isinstance(value, list):
        for item in value:
            yield from _values("name" if key == "forward_arg_names" else key, item)


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        nodes = value.get("nodes")
        if isinstance(nodes, list):
            yield from (node for node in nodes if isinstance(node, dict))
        for item in value.values():
            yield from _nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from _nodes(item)


def _is_fqn(key: str, value: str) -> bool:
    """Whether it can be no operator: `target` is also the name of a parameter or buffer."""
    heads = ("torch", "_operator", "math", "#")
    return key == "target" and not value.startswith(heads)


def _check_operator(target: str) -> None:
    if not _OPERATOR.fullmatch(target) or _TOUCHES_FILES.search(target):
        raise RefusedError(
            f"calls {target[:80]!r}, which isn't one of the operators that are known to calculate "
            "and nothing else (torch.ops.aten, prims, quantized and quantized_decomposed)"
        )


def _check_expression(text: str) -> None:
    """Sympy evaluates it as Python."""
    text = _QUOTED_NUMBER.sub(r"\1", _QUOTED.sub(r"\1", text))
    words = re.findall(r"[A-Za-z_]\w*", text)
    odd = [w for w in words if not _FUNCTIONS.fullmatch(w) and not _SYMBOLS.fullmatch(w)]
    if odd or len(text) > _EXPRESSION_LIMIT or not _EXPRESSION.fullmatch(text) or "**" in text:
        raise RefusedError(f"has a size that isn't plain arithmetic: {text[:80]!r}")


def _check_guard(text: str) -> None:
    """Torch makes Python of it, which is run for every batch."""
    try:
        parsed = ast.parse(text, mode="eval") if len(text) <= _EXPRESSION_LIMIT else None
    except (SyntaxError, ValueError, RecursionError):
        parsed = None
    if parsed is None or not all(_is_of_guard(node) for node in ast.walk(parsed)):
        raise RefusedError(f"has a condition that isn't on sizes of its inputs: {text[:80]!r}")


def _is_of_guard(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _GUARD_ATTRIBUTES
    if isinstance(node, ast.Name):
        return bool(_GUARD_NAMES.fullmatch(node.id))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return bool(re.fullmatch(r"[\w.\- ]+", node.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return False
    return isinstance(node, _GUARDS)


def _check_tree(tree: Any) -> None:
    kind, context = tree["type"], tree["context"]
    if kind is not None and kind not in _TREES:
        raise RefusedError(
            f"takes or answers a {kind}; dicts, lists and tuples of tensors can be loaded"
        )
    names = json.loads(context) if isinstance(context, str) and context else []
    for name in names if isinstance(names, list) else [] if names is None else [names]:
        if not isinstance(name, str | int) or not re.fullmatch(r"[\w.\- ]+", str(name)):
            raise RefusedError(f"has the key {name!r} in what it takes or answers")
    for child in tree["children_spec"]:
        _check_tree(child)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
