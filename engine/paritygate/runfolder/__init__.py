"""What a run leaves: the folder, the summary, the failure shards; and reading them back."""

from paritygate.runfolder.folder import RunFolder
from paritygate.runfolder.saved_plan import PLAN_FILE, saved_plan
from paritygate.runfolder.shards import IdsWriter, RejectedWriter, write_shard
from paritygate.runfolder.summary import SCHEMA_VERSION, encode_summary, read_summary

__all__ = [
    "PLAN_FILE",
    "SCHEMA_VERSION",
    "IdsWriter",
    "RejectedWriter",
    "RunFolder",
    "encode_summary",
    "read_summary",
    "saved_plan",
    "write_shard",
]
