//go:build !actorkill

package actors

// calm lets no actor of a broker die: in this build none does.
func calm(*Broker) {}
