// Package harness starts the real broker binary and speaks plain HTTP to it, for the contract tests.
//
// It promises:
//
//  1. Nothing of the product is linked in: whatever a test learns, it learned over a socket.
//  2. A test sees the status, the header and the raw bytes of every answer; the decoded forms are a convenience.
//  3. A broker that a test process started dies with that process at the latest.
//
// It does not judge answers: the typed calls decode what a 2xx carries and leave every verdict to the test.
package harness
