//go:build !actorkill

package actors

// chaos lets actors die in a build with the tag actorkill; in this one it does nothing.
type chaos struct{}

// point is passed before an actor sees a message, and after it has done all of its work.
func (*chaos) point(Kind) {}

// begin is told that the apply actor takes up a command.
func (*chaos) begin() {}
