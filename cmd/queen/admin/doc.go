// Package admin asks a cluster's administration routes over HTTP: membership, leadership and the state of each node
// (cluster 4, 5.4, 7.1, 7.3). `queen cluster` is its user.
//
// It promises:
//
//  1. The servers are tried in turn on a network error or a 5xx; a 429 waits as long as the server asks for. Everything
//     it sends is safe to repeat (cluster 4.2), so a try whose outcome is unknown may be followed by another.
//  2. One call never takes longer than its timeout and a small allowance in which the server's own 504 may arrive.
//  3. A refusal keeps the status, code and text of the server.
//
// It prints nothing and asks nobody: that is the command's part.
package admin
