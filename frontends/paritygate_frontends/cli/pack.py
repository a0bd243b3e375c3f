"""`paritygate pack`: verbs on packs of samples."""

from __future__ import annotations

import typer

from paritygate_frontends.cli.pack_boundary import boundary
from paritygate_frontends.cli.pack_build import build
from paritygate_frontends.cli.pack_check import check
from paritygate_frontends.cli.pack_export import export
from paritygate_frontends.cli.pack_import import import_
from paritygate_frontends.cli.pack_prove import prove, verify
from paritygate_frontends.cli.pack_synth import synth

pack = typer.Typer(
    name="pack",
    help="Make packs of samples, and look into them.",
    short_help="Make packs of samples; look into them.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
pack.command("build", short_help="Make a pack of tables or arrays.")(build)
pack.command("import", short_help="Make a pack of what other tools keep.")(import_)
pack.command("check", short_help="Read all of a pack; say what is in it.")(check)
pack.command("boundary", short_help="Make samples at the edges of decisions.")(boundary)
pack.command("synth", short_help="Make inputs of a model's graph alone.")(synth)
pack.command("export", short_help="Write samples for other tools.")(export)
pack.command("prove", short_help="Prove that a sample belongs to a pack.")(prove)
pack.command("verify", short_help="Verify such a proof by the content digest.")(verify)
