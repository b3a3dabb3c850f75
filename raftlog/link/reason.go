package link

// Reason says why a command was refused or a call failed, in one byte. The two ends of a link agree on what the numbers from 1 on mean;
// 0 stands for success, Text for an error that has no number and travels as text.
type Reason uint8

// Text is the reason of an error that only has a text.
const Text Reason = 255
