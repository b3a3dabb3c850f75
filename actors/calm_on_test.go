//go:build actorkill

package actors

// calm lets no actor of a broker die.
func calm(b *Broker) { b.system.chaos.strikes = func(Kind) bool { return false } }
