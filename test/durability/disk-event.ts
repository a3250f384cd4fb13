/**
 * Something that a process has told the kernel about its files. What it says is in the order of the trace: `start` and
 * `end` are the places there at which the system call began and returned.
 */
export type DiskEvent = { readonly start: number; readonly end: number } & (
  | { readonly kind: 'open'; readonly path: string; readonly isCreated: boolean }
  /** Of content or size. A durable one is on the disk when it returns (O_SYNC of open(2)). */
  | { readonly kind: 'write'; readonly path: string; readonly isDurable: boolean }
  | { readonly kind: 'sync'; readonly path: string }
  /** The disk has the content, be it in its cache (sync_file_range(2), waited for). */
  | { readonly kind: 'write-out'; readonly path: string }
  /** Of a whole filesystem (syncfs(2)). Only what lies below the path is taken for synced: that alone is known to be on it. */
  | { readonly kind: 'sync-all'; readonly path: string }
  | { readonly kind: 'make'; readonly path: string }
  | { readonly kind: 'remove'; readonly path: string }
  | { readonly kind: 'rename'; readonly from: string; readonly to: string }
  /** The end of an operation: from here on its caller relies on it. */
  | { readonly kind: 'answer'; readonly to: string }
);
