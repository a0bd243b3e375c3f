"""What a run leaves: the folder, the summary, the failure shards; and reading them back."""

from paritygate.runfolder.folder import RunFolder
from paritygate.runfolder.shards import IdsWriter, RejectedWriter, write_shard
from paritygate.runfolder.summary import SCHEMA_VERSION, encode_summary, read_summary

__all__ = [
    "SCHEMA_VERSION",
    "IdsWriter",
    "RejectedWriter",
    "RunFolder",
    "encode_summary",
    "read_summary",
    "write_shard",
]
