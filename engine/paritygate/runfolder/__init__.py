"""What a run leaves: the folder, the summary, the failure shards; and reading them back."""

from paritygate.runfolder.folder import RunFolder, make_folders, remove_empty
from paritygate.runfolder.rejected import RejectedIds, RejectedShard
from paritygate.runfolder.saved_plan import PLAN_FILE, saved_plan
from paritygate.runfolder.shards import IdsWriter, write_shard
from paritygate.runfolder.summary import SCHEMA_VERSION, encode_summary, read_summary

__all__ = [
    "PLAN_FILE",
    "SCHEMA_VERSION",
    "IdsWriter",
    "RejectedIds",
    "RejectedShard",
    "RunFolder",
    "encode_summary",
    "make_folders",
    "read_summary",
    "remove_empty",
    "saved_plan",
    "write_shard",
]
