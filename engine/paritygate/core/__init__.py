"""Words that every layer shares: tensors, batches, blocks, policy, plan, verdict, errors."""
