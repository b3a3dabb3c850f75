// Package wire turns the JSON of the HTTP interface into Go values and back (messaging 3 to 11, 13; state 2, 4).
//
// It knows nothing of HTTP, of the state machine or of clocks: every function is pure. Decoding is done by a scanner of
// our own, which validates the whole body by the JSON grammar and keeps payloads as the text that was sent; encoding
// appends to a buffer of the caller.
//
// Promises:
//
//  1. A decoder accepts exactly the JSON texts of RFC 8259 that are UTF-8 and nest at most MaxDepth levels. Of repeated
//     members the last one counts; members that are not known are ignored.
//  2. No decoder panics or needs more memory than a small multiple of the body, whatever the body holds.
//  3. Every decoded name and transaction id is valid UTF-8. An unpaired surrogate escape in one is refused like a wrong
//     type and never replaced: two ids must not become one.
//  4. A payload comes back byte for byte, without the white space around it.
//  5. Byte slices of decoded values alias the body where their comment says so; strings never do.
//  6. An encoder writes compact JSON that is valid UTF-8.
//
// A decoder refuses with an *Error; its code and text are those of the answer, and its reason on the state surfaces.
package wire
