"""The CPU back end: finished functions as LLVM IR, and through LLVM as machine code."""
