// Package identity keeps who a data directory is: identity.json (cluster 2.2) and layout.json (cluster 2.1).
//
// Promises:
//
//  1. Both files are replaced as a whole: temporary name, fsync, rename, fsync of the directory. Each carries its own
//     checksum, which covers every byte. After a crash there is the old file or the new one.
//  2. A directory is empty only when it has neither identity.json nor the state of a group (raft, store, groups).
//     Anything else that lacks one of the two files, or holds an unreadable one, is refused with a line that names the
//     file and the remedy (cluster 18). It is never treated as an empty directory.
//  3. Open mints a new boot nonce and returns only after it is fsynced, so the raft port never shows a nonce that a crash
//     could take back.
//  4. The formation record lies in identity.json, beside the cluster id, so that a node belongs to a cluster and knows
//     the first membership, or neither (cluster 3.2).
//  5. Once the log of group 0 has begun (Began), its directory must be there: a formation record never makes a second
//     first entry.
//  6. A reset that was begun is completed by the next Open before it returns.
//
// The order at a first start is layout.json, identity.json, then the state. So layout.json alone is an interrupted first
// start, and identity.json alone is damage.
//
// The lock of the directory is the caller's: Open expects that no other process uses it.
package identity
