// Package httpfront is the HTTP side of a node: the server, routing, authentication, admission, the mapping of errors to
// answers, and the handlers of the messaging families (messaging 2 and 3). JSON stands in httpfront/wire.
//
// A request passes these stations:
//
//	listener ─▶ head ─▶ beforeBody (level, admission) ─▶ body ─▶ serve (route, tenant, level) ─▶ handler ─▶ answer
//
// Promises:
//
//  1. Every refusal says why, with the status and the stable code of messaging 2.7; errors.go holds the only mapping.
//  2. Paths are matched as they were sent: split first, decoded afterwards, never normalised.
//  3. Memory for a body is asked for before the body is read, and given back when the answer has been made.
//  4. Whatever a client sends, or stops sending, costs at most its connection: a panic in a handler is a 500, a stalled
//     head or body ends after a stated time, a client that goes away ends its own wait.
//  5. Bytes of a request live until its handler returns. Keep is the one place where they are copied for longer.
//
// The package decides nothing about messages, and does not know which node leads.
package httpfront
