//go:build actorkill

package actors

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
)

// chaosOneIn is how many passages of a chaos point there are to one death when the environment names no number.
const chaosOneIn = 5000

// chaos kills actors at random: before they see a message, or after they have done all of their work. It never kills so
// often in one command that the command fails: that would be an apply failure, which is a matter of its own.
type chaos struct {
	mu sync.Mutex
	// strikes decides over one passage; nil reads the rate from QUEEN_TEST_ACTOR_KILL_ONE_IN with the first one.
	strikes func(Kind) bool
	// deaths counts since the apply actor has taken up its command.
	deaths int
	killed map[Kind]int
}

func (c *chaos) point(kind Kind) {
	if c.spares(kind) {
		return
	}
	panic(fmt.Sprintf("chaos: %s actor killed", kind))
}

func (c *chaos) spares(kind Kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.strikes == nil {
		c.strikes = atRandom()
	}
	if c.deaths == attempts-1 || !c.strikes(kind) {
		return true
	}
	c.deaths++
	if c.killed == nil {
		c.killed = map[Kind]int{}
	}
	c.killed[kind]++
	return false
}

func (c *chaos) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaths = 0
}

func atRandom() func(Kind) bool {
	oneIn, err := strconv.Atoi(os.Getenv("QUEEN_TEST_ACTOR_KILL_ONE_IN"))
	if err != nil || oneIn < 1 {
		oneIn = chaosOneIn
	}
	return func(Kind) bool { return rand.IntN(oneIn) == 0 }
}
