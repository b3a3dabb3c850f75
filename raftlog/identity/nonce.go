package identity

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// nonceRandomBytes is the random part of a boot nonce, written as 16 hex characters.
const nonceRandomBytes = 8

// newNonce returns the boot nonce with this counter.
func newNonce(counter uint64) string {
	var random [nonceRandomBytes]byte
	rand.Read(random[:]) //nolint:errcheck // never fails: it ends the process instead
	return fmt.Sprintf("%d-%x", counter, random)
}

// NonceCounter returns the boot counter of a boot nonce, and false for a text that is none.
func NonceCounter(nonce string) (uint64, bool) {
	counter, random, found := strings.Cut(nonce, "-")
	if !found || len(random) != hex.EncodedLen(nonceRandomBytes) {
		return 0, false
	}
	if _, err := hex.DecodeString(random); err != nil {
		return 0, false
	}
	value, err := strconv.ParseUint(counter, 10, 64)
	if err != nil {
		return 0, false
	}
	return value, true
}
