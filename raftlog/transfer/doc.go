// Package transfer moves a large state from one node to another in parts, over requests and answers that somebody else
// carries. It knows nothing of what the parts hold.
//
// The receiver asks, the sender remembers. Begin opens an export and returns its id and some bytes of the caller's. Then
// the receiver asks for ranges of part 1, part 2 and so on; with the last range of a part comes the SHA-256 of all of it. A
// range may be asked for as often as need be, a part again from its beginning, and the next part once; there is no way
// back to an earlier part, so the sender keeps no more than one. Which parts there are, and how long they are, shows as
// they come: nothing has to be prepared. After the last part, End.
//
// Promises:
//
//  1. A part stands in the receiver's directory under its name only when all its bytes have come and match the checksum.
//  2. A call that breaks costs at most one range, a damaged part only itself. What has come stays over any number of calls
//     of Fetch, unless the sender has given up the export: then everything begins anew.
//  3. At most two exports are open at a time, one for each peer, none longer than 60 s without a request.
//  4. Nothing that a sender says makes the receiver write outside its directory or beyond its limits, and nothing that a
//     receiver asks makes the sender read outside the current part.
package transfer
