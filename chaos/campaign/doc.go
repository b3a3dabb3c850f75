// Package campaign runs mixed load on a real broker, ends the process again and again, and judges the books.
//
// A campaign is: start, prepare, load; then for each interruption a random wait, the end of the process, a start on
// the same directory, and the checks that are possible under load; at last the load stops, every group drains its
// queues, and everything is read and judged (package ledger).
package campaign
