//go:build !actorkill

package actors

// chaosPoint is where a build with the tag actorkill lets actors die at random.
func chaosPoint(Kind) {}
