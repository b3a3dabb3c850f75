//go:build actorkill

package actors

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
)

// killOneIn is how many passages of a chaos point there are to one death, from QUEEN_TEST_ACTOR_KILL_ONE_IN.
var killOneIn = func() int {
	n, err := strconv.Atoi(os.Getenv("QUEEN_TEST_ACTOR_KILL_ONE_IN"))
	if err != nil || n < 1 {
		return 5000
	}
	return n
}()

// chaosPoint kills the actor now and then: before it has seen a message, or after it has done all of its work.
func chaosPoint(kind Kind) {
	if rand.IntN(killOneIn) == 0 {
		panic(fmt.Sprintf("chaos: %s actor killed", kind))
	}
}
