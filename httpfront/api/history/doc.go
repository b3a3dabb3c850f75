// Package history counts what goes through this node and keeps it as rows over time, for the analytics routes (messaging
// 14) and the gauges per queue (operations 3.4). It is this node's own memory: not replicated, not part of a backup.
//
// What it promises:
//
//  1. Counting costs a handler well under 200 ns and never waits for a disk.
//  2. Every count ends in exactly one row.
//  3. Rows are bounded in age and number, in memory and on disk; so are the queues that are counted, by those in use.
//  4. A restart keeps the rows. Files that cannot be read cost a warning and the rows in them, never the start.
package history
