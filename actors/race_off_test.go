//go:build !race

package actors

// underRace tells that the race detector runs, which takes memory of its own.
const underRace = false
