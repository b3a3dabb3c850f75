package peer

import "strings"

// A member that returns with an empty directory (cluster 2.6) has a mark in the members table until it has one, in the place of an
// incarnation: nobody takes the directory that goes for one of the cluster any more, and everybody knows why it goes.

// resetMark begins a mark. What follows is the verdict, a colon and the incarnation that may be emptied, if it is known.
const resetMark = "reset:"

// ResetMark is what stands in the place of an incarnation until its directory is empty.
func ResetMark(verdict Verdict, incarnation string) string {
	return resetMark + string(verdict) + ":" + incarnation
}

// MarkedForReset reads a mark; marked is false for an incarnation.
func MarkedForReset(incarnation string) (verdict Verdict, directory string, marked bool) {
	rest, marked := strings.CutPrefix(incarnation, resetMark)
	if !marked {
		return "", "", false
	}
	word, directory, _ := strings.Cut(rest, ":")
	if verdict = Verdict(word); verdict != RolledBack {
		verdict = Replaced
	}
	return verdict, directory, true
}
