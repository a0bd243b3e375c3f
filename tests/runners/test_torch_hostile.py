"""Files that would run code: none of it is run, whatever the file is called and however it is made.

Each file here writes a marker where it is loaded without care, which is shown first.
"""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests import torch_models  # noqa: E402

from paritygate.core.errors import RunnerLoadError  # noqa: E402
from paritygate.core.tensors import ColumnSpec  # noqa: E402
from paritygate.runners.registry import prepare  # noqa: E402
from paritygate.testing import context_of, spec_of  # noqa: E402

X = torch.zeros(2, 4)
INPUT = {"input": ColumnSpec("input", "float32", (4,))}


class Marks:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return (Path.touch, (self.marker,))


def load(folder: Path, table: object) -> None:
    prepare(spec_of(table), context_of(folder)).close()


def refused(folder: Path, table: object) -> RunnerLoadError:
    """The error that a runner of this table ends with; the marker isn't there."""
    with pytest.raises(RunnerLoadError) as e:
        load(folder, table)
    assert not (folder / "marker").exists()
    return e.value


@pytest.mark.parametrize("name", ["m.pt", "m.pt2", "m.pth", "m.jit"])
@pytest.mark.parametrize("way", ["zip", "legacy", "plain"])
def test_pickles_of_objects(tmp_path: Path, name: str, way: str) -> None:
    marker, path = tmp_path / "marker", tmp_path / name
    if way == "plain":
        path.write_bytes(pickle.dumps(Marks(marker)))
        pickle.loads(path.read_bytes())
    else:
        torch.save(Marks(marker), path, _use_new_zipfile_serialization=way == "zip")
        torch.load(path, weights_only=False)
    assert marker.exists()
    marker.unlink()
    error = refused(tmp_path, name)
    assert "unpickling runs whatever such a file says" in str(error)
    assert error.code == "admission.unsafe_model"


def test_a_pickled_module_says_how_to_save_it(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "m.pt")
    told = str(refused(tmp_path, "m.pt"))
    assert "m.pt is a pickle (" in told
    assert "torch.nn.modules.linear.Linear" in told
    assert "torch.export.save(" in told
    assert "TorchScript" in told
    assert "weights = 'weights.pt'" in told
    assert "weights = 'm.pt'" not in told


@pytest.mark.parametrize("is_zip", [True, False])
def test_weights_alone_say_what_is_missing(tmp_path: Path, is_zip: bool) -> None:
    state = torch.nn.Linear(2, 2).state_dict()
    torch.save(state, tmp_path / "m.pt", _use_new_zipfile_serialization=is_zip)
    told = str(refused(tmp_path, "m.pt"))
    assert "holds weights without the program" in told
    assert "weights = 'm.pt'" in told


def test_a_legacy_module_names_what_it_would_import(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "m.pt", _use_new_zipfile_serialization=False)
    error = refused(tmp_path, "m.pt")
    assert "torch.nn.modules.linear.Linear" in str(error)
    assert error.code == "admission.unsafe_model"


@pytest.mark.parametrize("way", ["zip", "legacy", "plain"])
def test_weights_that_are_more(tmp_path: Path, way: str) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(2, 2)\n"
    )
    state = {**torch.nn.Linear(2, 2).state_dict(), "more": Marks(tmp_path / "marker")}
    if way == "plain":
        (tmp_path / "w.pt").write_bytes(pickle.dumps(state))
    else:
        torch.save(state, tmp_path / "w.pt", _use_new_zipfile_serialization=way == "zip")
    error = refused(tmp_path, {"factory": "net:build", "weights": "w.pt"})
    assert "holds more than tensors" in str(error)


class Saves(torch.nn.Module):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.path)
        return x


def test_torchscript_that_writes_a_file(tmp_path: Path) -> None:
    torch_models.scripted(Saves(str(tmp_path / "marker")), tmp_path / "m.pt")
    assert "calls 'save'" in str(refused(tmp_path, "m.pt"))


def rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """The archive with its members changed; None leaves one out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            content = change(info.filename.partition("/")[2], old.read(info.filename))
            if content is not None:
                new.writestr(info.filename, content)
    return target


def with_more(source: Path, target: Path, name: str, content: bytes) -> Path:
    rewritten(source, target, lambda _, old: old)
    with zipfile.ZipFile(target, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{root}/{name}", content)
    return target


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A sound exported program, which loads also where its archive was written anew."""
    path = torch_models.exported(torch_models.Net().eval(), tmp_path / "sound.pt2", X)
    load(tmp_path, str(rewritten(path, tmp_path / "anew.pt2", lambda _, old: old)))
    return path


def test_sample_inputs_that_run_code(tmp_path: Path, program: Path) -> None:
    buffer = io.BytesIO()
    torch.save(((Marks(tmp_path / "marker"),), {}), buffer)
    hostile = rewritten(
        program,
        tmp_path / "m.pt2",
        lambda name, old: buffer.getvalue() if name.startswith("data/sample_inputs/") else old,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.export.load(str(hostile))
        except Exception:  # what was made of it is of no use; it was made
            pass
    assert (tmp_path / "marker").exists(), "torch.export.load has become careful: look at it anew"
    (tmp_path / "marker").unlink()
    error = refused(tmp_path, "m.pt2")
    assert "sample inputs that aren't tensors and numbers alone" in str(error)
    assert error.code == "admission.unsafe_model"


def config(use_pickle: bool, path_name: str) -> Callable[[str, bytes], bytes]:
    def change(name: str, old: bytes) -> bytes:
        if name != "data/constants/model_constants_config.json":
            return old
        entry = {"path_name": path_name, "is_param": False, "use_pickle": use_pickle}
        return json.dumps({"config": {"c": {**entry, "tensor_meta": None}}}).encode()

    return change


@pytest.mark.parametrize(
    ("path_name", "record"),
    [("opaque_obj_0", "opaque_obj_0"), ("tensor_0", "tensor_0"), ("custom_obj_0", "custom_obj_0")],
)
def test_pickled_constants(tmp_path: Path, program: Path, path_name: str, record: str) -> None:
    pickled = pickle.dumps(Marks(tmp_path / "marker"))
    if path_name == "tensor_0":
        buffer = io.BytesIO()
        torch.save(Marks(tmp_path / "marker"), buffer)
        pickled = buffer.getvalue()
    changed = rewritten(program, tmp_path / "changed.pt2", config(True, path_name))
    with_more(changed, tmp_path / "m.pt2", f"data/constants/{record}", pickled)
    assert refused(tmp_path, "m.pt2").code == "admission.unsafe_model"


@pytest.mark.parametrize(
    "record",
    [
        "data/weights/model.pt",
        "data/constants/model.pt",
        "data/aotinductor/model/model.so",
        "models/other.json",
        "data/weights/weight_0.pt",
    ],
)
def test_records_that_do_not_belong(tmp_path: Path, program: Path, record: str) -> None:
    with_more(program, tmp_path / "m.pt2", record, pickle.dumps(Marks(tmp_path / "marker")))
    assert repr(record) in str(refused(tmp_path, "m.pt2"))


def edited(source: Path, target: Path, edit: Callable[[Any], None]) -> Path:
    def change(name: str, old: bytes) -> bytes:
        if name != "models/model.json":
            return old
        model = json.loads(old)
        edit(model)
        return json.dumps(model).encode()

    return rewritten(source, target, change)


def touch(folder: Path) -> str:
    return f"__import__('pathlib').Path({str(folder / 'marker')!r}).touch()"


def set_size(model: Any, expression: str) -> None:
    """Every size that is an expression."""
    found = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "expr_str" in value:
                value["expr_str"] = expression
                found.append(value)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(model)
    assert found


def test_sizes_that_are_code(tmp_path: Path, program: Path) -> None:
    hostile = edited(program, tmp_path / "m.pt2", lambda m: set_size(m, touch(tmp_path)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.export.load(str(hostile))
        except Exception:  # sympy can't use what comes out; it was run
            pass
    assert (tmp_path / "marker").exists(), "torch.export.load has become careful: look at it anew"
    (tmp_path / "marker").unlink()
    assert "a size that isn't plain arithmetic" in str(refused(tmp_path, "m.pt2"))


@pytest.mark.parametrize(
    "expression",
    [
        "s0.__class__",
        "().__class__",
        "Symbol('s0', positive=True).func",
        "Symbol('s0')('x')",
        "open('x')",
        "eval('1')",
        "9**9**9**9",
        "s0[0]",
        "lambda: s0",
        "Symbol('s0', **{})",
    ],
)
def test_sizes_that_are_no_arithmetic(tmp_path: Path, program: Path, expression: str) -> None:
    edited(program, tmp_path / "m.pt2", lambda m: set_size(m, expression))
    assert "plain arithmetic" in str(refused(tmp_path, "m.pt2"))


@pytest.mark.parametrize(
    "target",
    [
        "torch.serialization.os.system",
        "torch.hub.os.system",
        "torch.ops.load_library",
        "torch.ops.load_library.__call__",
        "torch.ops.aten.__class__.mro",
        "torch.load",
        "torch.ops.aten.from_file.default",
        "torch.ops.debugprims.load_tensor.default",
        "_operator.attrgetter",
        "_operator.methodcaller",
        "_operator.call",
        "math.__loader__",
        "#custom:op",
        "builtins.eval",
    ],
)
def test_operators_that_do_more_than_calculate(tmp_path: Path, program: Path, target: str) -> None:
    def edit(model: Any) -> None:
        model["graph_module"]["graph"]["nodes"][0]["target"] = target

    edited(program, tmp_path / "m.pt2", edit)
    error = refused(tmp_path, "m.pt2")
    assert target in str(error)
    assert error.code == "admission.unsafe_model"


def rename_input(model: Any, name: str) -> None:
    signature = model["graph_module"]["module_call_graph"][0]["signature"]
    signature["forward_arg_names"] = [name]


@pytest.mark.parametrize("name", ["x=print(1)", "x, y=open('z')", "x\n    pass", "x'", "1x"])
def test_names_that_are_code(tmp_path: Path, program: Path, name: str) -> None:
    edited(program, tmp_path / "m.pt2", lambda m: rename_input(m, name))
    assert "the exported program h" in str(refused(tmp_path, "m.pt2"))


@pytest.mark.parametrize(
    "guard",
    [
        "__import__('os').system('true')",
        "L.__class__",
        "[L for L in ()]",
        "(lambda: 1)()",
        "L['x'].size().__class__",
        "open('x')",
        "L['x'].tofile('x')",
        "9**9**9**9",
        "1) and print(1",
        "L['a\"b']",
        "L['x'].size()[0] # \n",
    ],
)
def test_conditions_that_are_code(tmp_path: Path, program: Path, guard: str) -> None:
    def edit(model: Any) -> None:
        assert "guards_code" in model
        model["guards_code"] = [guard]

    edited(program, tmp_path / "m.pt2", edit)
    if "#" not in guard:  # a comment is none of it
        assert "isn't on sizes of its inputs" in str(refused(tmp_path, "m.pt2"))


class Halves(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], 2, x.shape[1] // 2).sum(1)


def test_conditions_of_a_sound_program(tmp_path: Path) -> None:
    dims = {"x": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}}
    sound = torch.export.export(Halves(), (torch.zeros(3, 6),), dynamic_shapes=dims)
    torch.export.save(sound, tmp_path / "m.pt2")
    with zipfile.ZipFile(tmp_path / "m.pt2") as archive:
        assert json.loads(archive.read("m/models/model.json"))["guards_code"]
    load(tmp_path, "m.pt2")


def test_an_expression_that_takes_for_ever_to_look_at(tmp_path: Path, program: Path) -> None:
    edited(program, tmp_path / "m.pt2", lambda m: set_size(m, "s" * 3000 + "'"))
    refused(tmp_path, "m.pt2")


def set_tree(model: Any, tree: object) -> None:
    signature = model["graph_module"]["module_call_graph"][0]["signature"]
    signature["out_spec"] = json.dumps([1, tree])


@pytest.mark.parametrize(
    "tree",
    [
        {"type": "collections.defaultdict", "context": "{}", "children_spec": []},
        {
            "type": "builtins.dict",
            "context": json.dumps([{"__enum__": True, "fqn": "antigravity:x", "name": "y"}]),
            "children_spec": [],
        },
        {"type": "builtins.dict", "context": json.dumps(["a'b"]), "children_spec": []},
    ],
)
def test_trees_that_import(tmp_path: Path, program: Path, tree: object) -> None:
    edited(program, tmp_path / "m.pt2", lambda m: set_tree(m, tree))
    refused(tmp_path, "m.pt2")


@pytest.mark.parametrize("suffix", ["pt", "pt2"])
@pytest.mark.parametrize("content", [b"", b"no", b"PK\x03\x04", b"\x80\x02", b"\x00" * 64])
def test_files_that_are_nothing(tmp_path: Path, suffix: str, content: bytes) -> None:
    (tmp_path / f"m.{suffix}").write_bytes(content)
    refused(tmp_path, f"m.{suffix}")


@pytest.mark.parametrize("form", ["scripted", "exported"])
def test_files_that_are_cut_off(tmp_path: Path, form: str) -> None:
    args = () if form == "scripted" else (X,)
    path = getattr(torch_models, form)(torch_models.Net().eval(), tmp_path / "whole.pt2", *args)
    whole = path.read_bytes()
    for kept in range(0, len(whole), max(1, len(whole) // 40)):
        (tmp_path / "m.pt").write_bytes(whole[:kept])
        refused(tmp_path, "m.pt")


CODE = "code/__torch__/tests/torch_models.py"


def with_line(source: Path, target: Path, line: str) -> Path:
    """The archive with a line more in its `forward`."""

    def change(name: str, old: bytes) -> bytes | None:
        if name.endswith(".debug_pkl"):
            return None
        head, found, tail = old.decode("utf-8", "replace").partition("    return")
        return f"{head}    {line}\n{found}{tail}".encode() if name == CODE else old

    return rewritten(source, target, change)


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    """TorchScript of one layer."""
    return torch_models.scripted(torch_models.Twice(), tmp_path / "sound.pt")


@pytest.mark.parametrize(
    "call",
    [
        'torch.save(x, "{marker}")',
        'getattr(torch, "save")(x, "{marker}")',
        'getattr(ops.aten, "save")(x, "{marker}")',
        'getattr(torch, "from_file")("{marker}", True, 16)',
        'getattr(torch, "sa" "ve")(x, "{marker}")',
        'getattr(torch, "s\\x61ve")(x, "{marker}")',
        "getattr(torch, 'save')(x, \"{marker}\")",
        'getattr (torch, "save")(x, "{marker}")',
        'getattr(torch,\n        "save")(x, "{marker}")',
        'getattr(torch, """save""")(x, "{marker}")',
        'torch. \\\n      save(x, "{marker}")',
        'torch. # none\n      save(x, "{marker}")',
        'x.save("{marker}")',
    ],
)
def test_torchscript_that_calls_what_touches_files(tmp_path: Path, linear: Path, call: str) -> None:
    line = "_m = " + call.replace("{marker}", str(tmp_path / "marker"))
    hostile = with_line(linear, tmp_path / "m.pt", line)
    try:
        torch.jit.load(str(hostile))(X)
    except Exception:  # some of these aren't TorchScript, others have no such overload
        pass
    (tmp_path / "marker").unlink(missing_ok=True)
    assert refused(tmp_path, "m.pt").code == "admission.unsafe_model"


@pytest.mark.parametrize("call", ['getattr(torch, "save")(x, "{}")', 'torch.save(x, "{}")'])
def test_code_that_is_found_by_another_case(tmp_path: Path, linear: Path, call: str) -> None:
    marker = tmp_path / "marker"
    hostile = with_line(linear, tmp_path / "first.pt", "_m = " + call.format(marker))

    with zipfile.ZipFile(hostile) as old, zipfile.ZipFile(tmp_path / "m.pt", "w") as new:
        for info in old.infolist():
            new.writestr(
                info.filename.replace(CODE, CODE.upper()),
                old.read(info.filename),
            )
    with torch_models.old_ways():
        torch.jit.load(str(tmp_path / "m.pt"))(X)
    assert marker.exists(), "the reader has become strict about case: look at it anew"
    marker.unlink()
    assert refused(tmp_path, "m.pt").code == "admission.unsafe_model"


def test_graphs_with_operators_that_touch_files(tmp_path: Path) -> None:
    from paritygate.runners.torch_operators import check_graphs
    from paritygate.runners.torch_program import ProgramError

    class Inner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.saves = Saves(str(tmp_path / "marker"))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                for _ in range(2):
                    x = self.saves(x)
            return x

    with torch_models.old_ways():
        script = torch.jit.script(Inner())
    with pytest.raises(ProgramError, match="calls 'save'"):
        check_graphs(script)


def test_submodules_whose_names_are_numbers_pass(tmp_path: Path) -> None:
    nest = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4)), torch.nn.ReLU())
    torch_models.scripted(nest, tmp_path / "m.pt")
    with zipfile.ZipFile(tmp_path / "m.pt") as archive:
        code = [archive.read(n) for n in archive.namelist() if n.endswith(".py")]
    assert any(b'getattr(self, "0")' in text for text in code)
    runner = prepare(spec_of("m.pt"), context_of(tmp_path, None, None, INPUT))
    runner.close()
