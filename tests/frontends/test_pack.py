"""`paritygate pack`: what is said of a pack, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.frontends.command import invoke
from tests.packs import write_pack

X = np.arange(18, dtype=np.float32).reshape(6, 3)


def pack(folder: Path, name: str = "a.arrow", rows: slice = slice(None), first: int = 0) -> Path:
    x = X[rows]
    ids = [f"{name[0]}{first + i}" for i in range(len(x))]
    sites = ["north", "south", None, "north", "north", "south"][: len(x)]
    return write_pack(
        folder / name, ids, {"x": x}, {"y": x[:, 0]}, label=range(len(x)), slices={"site": sites}
    )


def test_what_is_in_a_pack(tmp_path: Path) -> None:
    result = invoke("pack", "check", pack(tmp_path), "--slice", "site")
    assert result.exit_code == 0, result.output
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert ["ok", "6 samples in 1 file, string ids, none twice"] in lines
    assert ["note", "column in.x: float32[batch, 3]"] in lines
    assert ["note", "column out.y: float32[batch]"] in lines
    assert [
        "note",
        "slice site: north 3 (50.0 %), south 2 (33.3 %), (null) 1 (16.7 %)",
    ] in lines
    assert any(line[1].startswith("content digest ") for line in lines)


def test_samples_that_are_in_another_pack(tmp_path: Path) -> None:
    ours, theirs = pack(tmp_path), pack(tmp_path, "b.arrow", slice(4, 6))
    result = invoke("pack", "check", ours, "--against", theirs)
    assert result.exit_code == 1
    assert "evidence.calibration_overlap: 2 of 6 samples are also in" in result.stdout
    assert "'a4' (there 'b0'), 'a5' (there 'b1')" in result.stdout
    apart = invoke("pack", "check", pack(tmp_path, "c.arrow", slice(0, 4)), "--against", theirs)
    assert apart.exit_code == 0, apart.output
    assert "no sample is also in" in apart.stdout


def test_json_says_the_same(tmp_path: Path) -> None:
    twice = write_pack(tmp_path / "t.arrow", [1, 2, 3], {"x": X[[0, 1, 0]]})
    result = invoke("pack", "check", twice, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["equal_inputs"] == {"count": 1, "first": [{"id": 3, "earlier_id": 1}]}
    assert found["columns"] == [{"dtype": "float32", "name": "in.x", "shape": [3]}]
    assert len(found["content_digest"]) == 64


def test_ids_that_occur_twice(tmp_path: Path) -> None:
    result = invoke("pack", "check", write_pack(tmp_path / "a.arrow", [7, 8, 7], {"x": X[:3]}))
    assert result.exit_code == 2
    assert "1 row repeats an id: 7 (rows 0 and 2)" in result.stdout


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"channels": '["a", "b"'}, "paritygate.channels isn't a JSON list of texts"),
        ({"channels": "{}"}, "paritygate.channels isn't a JSON list of texts"),
        ({"channels": b'["\xff'}, "paritygate.channels isn't a JSON list of texts"),
        ({"channels": '["a", "b"]'}, "paritygate.channels has 2 texts, and the axis has 3"),
        ({"units": '["m", "s"]'}, "paritygate.units has 2 texts, and the axis has 3"),
        ({"axes": '["row", "channel"]'}, "paritygate.axes names 2 axes, and a sample has 1"),
        ({"axes": '["channel"]', "channels": '["a", "b", "c"]', "units": '["m"]'}, ""),
        ({"units": '"m"'}, ""),
    ],
)
def test_meanings_that_can_not_be(
    tmp_path: Path, metadata: dict[str, str | bytes], told: str
) -> None:
    table = pa.ipc.open_file(write_pack(tmp_path / "a.arrow", range(6), {"x": X})).read_all()
    said = {f"paritygate.{key}": value for key, value in metadata.items()}
    at = table.schema.get_field_index("in.x")
    schema = table.schema.set(at, table.schema.field(at).with_metadata(said))
    with pa.ipc.new_file(tmp_path / "b.arrow", schema) as writer:
        writer.write_table(table.cast(schema))
    result = invoke("pack", "check", tmp_path / "b.arrow")
    assert result.exit_code == (1 if told else 0), result.output
    assert f"column in.x: {told}" in result.stdout


def test_what_is_told_of_ids_and_columns_is_short(tmp_path: Path) -> None:
    long = "i" * 1_000_000
    columns = {f"x{i:03}": X[:2, 0] for i in range(300)}
    result = invoke("pack", "check", write_pack(tmp_path / "a.arrow", [long, long], columns))
    assert "iii... (1,000,002 characters) (rows 0 and 1)" in result.stdout
    assert "and 100 more columns" in result.stdout
    assert len(result.stdout) < 20_000


def test_a_null_in_a_tensor(tmp_path: Path) -> None:
    column = pa.array([[1.0, 2.0], [1.0, None]])
    path = write_pack(tmp_path / "a.arrow", [1, 2], columns={"in.x": column})
    result = invoke("pack", "check", path)
    assert result.exit_code == 2
    assert "golden.null_value" in result.stderr
    assert "sample 2 (row 1): null at element 1" in result.stderr


def test_a_plan_names_columns_contract_and_calibration(tmp_path: Path) -> None:
    golden, calibration = pack(tmp_path), pack(tmp_path, "b.arrow", slice(5, 6))
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'golden = "{golden}"\ncalibration = "{calibration.name}"\nslices = ["site"]\n'
        '[inputs.x]\nrange = [0.0, 10.0]\n[runners]\na = {kind = "null", echo = {y = "x"}}\n'
        '[[stages]]\nreference = "a"\ncandidate = "a"\nself = true\n'
        "default = {atol = 0, rtol = 0}\n"
    )
    result = invoke("pack", "check", golden, "--plan", plan)
    assert result.exit_code == 1
    assert "input x: 3 samples break the plan's contract: 'a3', 'a4', 'a5'" in result.stdout
    assert "1 of 6 samples is also in" in result.stdout
    assert "slice site: north 3" in result.stdout


def test_an_empty_pack_proves_nothing(tmp_path: Path) -> None:
    result = invoke("pack", "check", write_pack(tmp_path / "a.arrow", [], {"x": X[:0]}))
    assert result.exit_code == 1
    assert "an empty pack proves nothing" in result.stdout


def test_a_pack_is_built_and_checked(tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("key,a,b,site\nx,0.5,1,n\ny,0.25,2,s\n", encoding="utf-8")
    path = tmp_path / "p.arrow"
    args = ["--input", "f:float32=a,b", "--id", "key", "--keep", "site"]
    result = invoke("pack", "build", source, "-o", path, *args)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{path}: 2 samples, content digest ")
    digest = result.stdout.split()[-1]
    checked = invoke("pack", "check", path, "--slice", "site")
    assert checked.exit_code == 0
    assert f"content digest {digest}, as recorded when it was written" in checked.stdout
    again = invoke("pack", "build", source, "-o", path, "--input", "f=c", "--id", "key")
    assert again.exit_code == 2
    assert "'c'" in again.stderr
    assert invoke("pack", "check", path).exit_code == 0


def test_samples_go_out_and_come_in_again(tmp_path: Path) -> None:
    path = pack(tmp_path)
    sets = tmp_path / "sets"
    result = invoke("pack", "export", path, "a1", "a4", "-o", sets)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [f"{sets}/test_data_set_{n}" for n in (0, 1)]
    (sets / "config.txt").write_text("per_sample_tolerance:0.001\n")
    again = invoke("pack", "import", sets, "-o", tmp_path / "b.arrow")
    assert again.exit_code == 0, again.output
    assert "b.arrow: 2 samples, content digest " in again.stdout
    assert again.stdout.endswith("default = { atol = 0.001, rtol = 0.0 }\n")
    checked = invoke("pack", "check", tmp_path / "b.arrow", "--against", path)
    assert "2 of 2 samples are also in" in checked.stdout
    assert invoke("pack", "export", path, "-o", sets).exit_code == 2


def test_labels_may_be_missing_or_no_classes(tmp_path: Path) -> None:
    import pyarrow as pa

    some = write_pack(tmp_path / "a.arrow", [1, 2, 3], {"x": X[:3]}, label=pa.array([1, None, 1]))
    result = invoke("pack", "check", some)
    assert result.exit_code == 0, result.output
    assert "labels: 1 2 (66.7 %), (null) 1 (33.3 %)" in result.stdout
    many = write_pack(tmp_path / "b.arrow", range(2_000), label=range(2_000))
    assert "labels" not in invoke("pack", "check", many).stdout
    missing = invoke("pack", "check", some, "--label", "lable")
    assert missing.exit_code == 2
    assert "did you mean 'label'?" in missing.stderr


def test_a_digest_that_was_recorded_for_other_ids_is_not_compared(tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("sample_id,b,in.x\n1,7,0.5\n2,8,1.5\n", encoding="utf-8")
    args = ["-o", tmp_path / "p.arrow", "--keep", "b"]
    assert invoke("pack", "build", source, *args).exit_code == 0
    result = invoke("pack", "check", tmp_path / "p.arrow", "--id", "b")
    assert result.exit_code == 0, result.output


def test_a_proof_is_verified_with_the_digest_alone(tmp_path: Path) -> None:
    whole = pack(tmp_path)
    result = invoke("pack", "prove", whole, "a4")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    proof = tmp_path / "proof.json"
    proof.write_text(result.stdout)
    sites = {"site": ["north"]}
    one = write_pack(
        tmp_path / "one.parquet", ["a4"], {"x": X[4:5]}, {"y": X[4:5, 0]}, [4], sites,
        container="parquet",
    )  # fmt: skip
    whole.unlink()
    digest = told["content_digest"]
    good = invoke("pack", "verify", proof, one, "--digest", digest)
    assert (good.exit_code, good.stdout) == (0, "sample 'a4' belongs to the pack, as row 4 of 6\n")
    assert invoke("pack", "verify", proof, one, "--digest", digest.upper()).exit_code == 0
    for wrong in (digest[:-1] + ("0" if digest[-1] != "0" else "1"), told["leaf"]):
        assert invoke("pack", "verify", proof, one, "--digest", wrong).exit_code == 1
    for wrong in ("", "zz", digest[:-1], digest + "\n"):
        refused = invoke("pack", "verify", proof, one, "--digest", wrong)
        assert refused.exit_code == 2
        assert "a content digest has 64 digits" in refused.output
    forged = write_pack(tmp_path / "f.arrow", ["a4"], {"x": X[3:4]}, {"y": X[4:5, 0]}, [4], sites)
    assert invoke("pack", "verify", proof, forged, "--digest", digest).exit_code == 1
    for key, value in (("row", 3), ("samples", 5), ("samples", 7), ("path", told["path"][:-1])):
        proof.write_text(json.dumps({**told, key: value}))
        assert invoke("pack", "verify", proof, one, "--digest", digest).exit_code == 1
    for text in ("{", "[]", "{}", json.dumps({**told, "path": ["xyz"]})):
        proof.write_text(text)
        assert invoke("pack", "verify", proof, one, "--digest", digest).exit_code == 2
    other = write_pack(tmp_path / "o.arrow", ["a5"], {"x": X[5:6]})
    proof.write_text(json.dumps(told))
    assert invoke("pack", "verify", proof, other, "--digest", digest).exit_code == 2


def test_packs_that_can_share_nothing_are_not_called_apart(tmp_path: Path) -> None:
    other = write_pack(tmp_path / "o.arrow", [1], {"z": X[:1]})
    result = invoke("pack", "check", pack(tmp_path), "--against", other)
    assert result.exit_code == 2
    assert "its inputs are z (float32, 1 axes)" in " ".join(result.stderr.split())
