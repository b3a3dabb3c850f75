// Package outcome is the pure machine of the request-id window (I9): what became of the commands of the last minute, by
// their request ids, so that a command that is proposed again changes nothing and gets the result of the first time.
//
// The outcomes of one entry are one row, under the index of the entry. A row is written once and never changed; it is deleted
// when nothing in it is wanted any more. What is remembered follows from the rows alone, so a node that has just loaded them
// decides like one that never stopped:
//
//   - An origin is known as long as a row has an outcome of it. The newest such row says up to which sequence the origin
//     has answered its requests.
//   - A request below that number is answered: its outcome is not wanted, and it is never executed again, whether its row
//     is still there or not.
//   - Any other request is remembered as long as its row is there.
//
// A row is not wanted when all its requests are answered. It is too old when the window and a grace have passed since its
// entry, by the stamps of entries, and the term has lasted for a window (cluster 8.4). One entry deletes a bounded number of
// rows, those that are not wanted first and the oldest of them first; the rest waits for the next entries.
//
// In memory an origin is a ring of slots, one for each sequence that is not answered, and a slot knows the row and the place
// of the result in it. Recording, finding and forgetting a request touch one slot; a row that has grown too old is deleted
// without looking at its slots, which see that it is gone. Results themselves are read from the store, by repeats alone.
package outcome
