package harness

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Token signs claims as a JWT with HS256.
func Token(secret string, claims map[string]any) string {
	return TokenWithHeader(secret, map[string]any{"alg": "HS256", "typ": "JWT"}, claims)
}

// TokenWithHeader is Token with a header of the test's own making; the signature stays HMAC-SHA256.
func TokenWithHeader(secret string, header, claims map[string]any) string {
	signed := segment(header) + "." + segment(claims)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func segment(part map[string]any) string {
	encoded, err := json.Marshal(part)
	if err != nil {
		panic(fmt.Sprintf("BUG: token part does not marshal: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(encoded)
}
