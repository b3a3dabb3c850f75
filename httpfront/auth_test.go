package httpfront

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/rs/zerolog"
)

const testSecret = "a secret of the tests"

func authConfig() AuthConfig {
	return AuthConfig{
		Algorithm: "HS256", Secret: testSecret, ClockSkew: 30 * time.Second, RequireExp: true,
		RolesClaim: "role", RolesArrayClaim: "roles",
		RoleAdmin: "admin", RoleReadWrite: "read-write", RoleReadOnly: "read-only", RoleWriteOnly: "write-only",
		SkipPaths:   []string{"/health", "/metrics/prometheus", "/metrics", "/", "/open/"},
		JWKSRefresh: time.Hour, JWKSTimeout: time.Second,
		Log: zerolog.Nop(),
	}
}

func newAuth(t *testing.T, config AuthConfig) *Authenticator {
	t.Helper()
	a, err := NewAuthenticator(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func sign(t *testing.T, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func claimsOf(role string) jwt.MapClaims {
	return jwt.MapClaims{"sub": "someone", "role": role, "exp": time.Now().Add(time.Hour).Unix()}
}

func TestRolesPassSetsOfLevels(t *testing.T) {
	a := newAuth(t, authConfig())
	levels := []Level{LevelPublic, LevelReadOnly, LevelWriteOnly, LevelReadWrite, LevelAdmin}
	for role, passes := range map[string][]bool{
		"write-only": {true, false, true, false, false},
		"read-only":  {true, true, false, false, false},
		"read-write": {true, true, true, true, false},
		"admin":      {true, true, true, true, true},
		"stranger":   {true, false, false, false, false},
	} {
		header := []byte("Bearer " + sign(t, jwt.SigningMethodHS256, []byte(testSecret), "", claimsOf(role)))
		for i, level := range levels {
			subject, refusal := a.check([]byte("/x"), header, level)
			if (refusal == nil) != passes[i] {
				t.Errorf("role %s, level %d: %v", role, level, refusal)
			}
			if refusal != nil && refusal != errNoPermission {
				t.Errorf("role %s, level %d: %v", role, level, refusal)
			}
			if refusal == nil && level != LevelPublic && subject != "someone" {
				t.Errorf("role %s: subject %q", role, subject)
			}
		}
	}
	both := jwt.MapClaims{"roles": []string{"write-only", "read-only"}, "exp": time.Now().Add(time.Hour).Unix()}
	header := []byte("bearer " + sign(t, jwt.SigningMethodHS256, []byte(testSecret), "", both))
	for level, want := range map[Level]bool{LevelReadOnly: true, LevelWriteOnly: true, LevelReadWrite: false} {
		if _, refusal := a.check([]byte("/x"), header, level); (refusal == nil) != want {
			t.Errorf("two roles, level %d: %v", level, refusal)
		}
	}
}

func TestTokensAreRefusedWithTheirExactTexts(t *testing.T) {
	config := authConfig()
	config.Issuer, config.Audience = "the issuer", "queen"
	a := newAuth(t, config)
	now := time.Now()
	good := func(change func(jwt.MapClaims)) string {
		claims := claimsOf("admin")
		claims["iss"], claims["aud"] = "the issuer", []string{"other", "queen"}
		if change != nil {
			change(claims)
		}
		return "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(testSecret), "", claims)
	}
	set := func(name string, value any) string { return good(func(c jwt.MapClaims) { c[name] = value }) }
	none := jwt.NewWithClaims(jwt.SigningMethodNone, claimsOf("admin"))
	unsigned, err := none.SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, c := range []struct{ name, header, want string }{
		{"good", good(nil), ""},
		{"inside the skew", set("exp", now.Add(-20*time.Second).Unix()), ""},
		{"absent", "", "Authentication required"},
		{"another scheme", "Basic abc", "Authentication required"},
		{"empty", "Bearer  ", "Authentication required"},
		{"no token", "Bearer abc", "Bad token header"},
		{"no JSON", "Bearer a.b.c", "Bad token header"},
		{"no algorithm", "Bearer " + part(`{}`) + "." + part(`{}`) + ".x", "Unsupported token algorithm"},
		{"algorithm none", "Bearer " + unsigned, "Unsupported token algorithm"},
		{"another algorithm", "Bearer " + sign(t, jwt.SigningMethodHS512, []byte(testSecret), "", claimsOf("admin")), "Unsupported token algorithm"},
		{"another secret", "Bearer " + sign(t, jwt.SigningMethodHS256, []byte("other"), "", claimsOf("admin")), "Invalid token signature"},
		{"expired", set("exp", now.Add(-31*time.Second).Unix()), "Token has expired"},
		{"no expiry", good(func(c jwt.MapClaims) { delete(c, "exp") }), "Token has no expiry"},
		{"expiry of a wrong type", set("exp", "soon"), "Token has no expiry"},
		{"not yet valid", set("nbf", now.Add(time.Minute).Unix()), "Token not yet valid"},
		{"issued in the future", set("iat", now.Add(time.Minute).Unix()), "Token issued in the future"},
		{"another issuer", set("iss", "x"), "Invalid token issuer"},
		{"another audience", set("aud", "x"), "Invalid token audience"},
		{"no audience", good(func(c jwt.MapClaims) { delete(c, "aud") }), "Invalid token audience"},
	} {
		_, refusal := a.check([]byte("/x"), []byte(c.header), LevelAdmin)
		got := ""
		if refusal != nil {
			got = refusal.Text
			if refusal.HTTPStatus() != 401 {
				t.Errorf("%s: status %d", c.name, refusal.HTTPStatus())
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	config.RequireExp = false
	noExpiry := good(func(c jwt.MapClaims) { delete(c, "exp") })
	if _, refusal := newAuth(t, config).check([]byte("/x"), []byte(noExpiry), LevelAdmin); refusal != nil {
		t.Errorf("a token without exp that is not required: %v", refusal)
	}
}

func publicPEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestAPublicKeyNeverServesAsSecret(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := publicPEM(t, &rsaKey.PublicKey)
	config := authConfig()
	config.Algorithm, config.Secret, config.PublicKey = "auto", "", text
	a := newAuth(t, config)
	check := func(token string) *Error {
		_, refusal := a.check([]byte("/x"), []byte("Bearer "+token), LevelReadOnly)
		return refusal
	}
	for _, method := range []jwt.SigningMethod{jwt.SigningMethodRS256, jwt.SigningMethodRS512} {
		if refusal := check(sign(t, method, rsaKey, "", claimsOf("admin"))); refusal != nil {
			t.Errorf("%s: %v", method.Alg(), refusal)
		}
	}
	if refusal := check(sign(t, jwt.SigningMethodHS256, []byte(text), "", claimsOf("admin"))); refusal != errAlgorithm {
		t.Errorf("HS256 with the public key as secret: %v", refusal)
	}
	if refusal := check(sign(t, jwt.SigningMethodPS256, rsaKey, "", claimsOf("admin"))); refusal != errAlgorithm {
		t.Errorf("PS256: %v", refusal)
	}
}

func TestKeySetsAreFetchedAndAnUnknownKeyIsRefused(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var fetches atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{
			"kty": "OKP", "crv": "Ed25519", "kid": "one", "alg": "EdDSA", "x": base64.RawURLEncoding.EncodeToString(public),
		}}})
	}))
	defer provider.Close()
	config := authConfig()
	config.Algorithm, config.Secret, config.JWKSURL = "EdDSA", "", provider.URL
	a := newAuth(t, config)
	check := func(kid string, key crypto.Signer) *Error {
		header := "Bearer " + sign(t, jwt.SigningMethodEdDSA, key, kid, claimsOf("admin"))
		_, refusal := a.check([]byte("/x"), []byte(header), LevelReadOnly)
		return refusal
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kid  string
		key  crypto.Signer
		want *Error
	}{{"one", private, nil}, {"", private, nil}, {"one", other, errSignature}, {"two", private, errUnknownKey}} {
		if refusal := check(c.kid, c.key); refusal != c.want {
			t.Errorf("kid %q: got %v, want %v", c.kid, refusal, c.want)
		}
	}
	before := fetches.Load()
	for range 10 {
		if refusal := check("two", private); refusal != errUnknownKey {
			t.Errorf("got %v", refusal)
		}
	}
	if after := fetches.Load(); after-before > 1 {
		t.Errorf("ten unknown keys fetched the set %d times", after-before)
	}
}

func TestSkippedPathsAreComparedAsSent(t *testing.T) {
	a := newAuth(t, authConfig())
	for path, want := range map[string]bool{
		"/": true, "/metrics": true, "/metrics/prometheus": true, "/open/a/b": true,
		"/metrics/": false, "/open": false, "/api/v1/push": false, "/op%65n/x": false,
	} {
		if _, refusal := a.check([]byte(path), nil, LevelReadOnly); (refusal == nil) != want {
			t.Errorf("%s: %v", path, refusal)
		}
	}
}

func TestNobodyLearnsRoutesWithoutAToken(t *testing.T) {
	config := testConfig()
	config.Auth = newAuth(t, authConfig())
	config.AdmitBytes, config.AdmitHold = 1<<20, time.Minute
	s := startServer(t, config, append(routingTable(), Route{
		Method: "GET", Pattern: "/api/who", Level: LevelReadOnly,
		Handler: func(r *Request) { r.JSON(200, fmt.Appendf(nil, "%q", r.Subject)) },
	})...)
	required := `{"error":"Authentication required"}`
	for _, target := range []string{"/api/v1/consumer-groups/x", "/api/nope", "/api/v1/push", "/status"} {
		s.call(t, "GET", target, "").expect(t, 401, required)
	}
	// A push without a token is refused before its body, and holds no permits.
	s.call(t, "POST", "/api/v1/push", "{}").expect(t, 401, required)
	s.call(t, "GET", "/health", "").expect(t, 200, `{"route":"/health","params":[]}`)
	if got := s.call(t, "GET", "/dlq", ""); got.status != 200 {
		t.Errorf("the dashboard got %d", got.status)
	}
	header := func(role string) string {
		return "Authorization: Bearer " + sign(t, jwt.SigningMethodHS256, []byte(testSecret), "", claimsOf(role))
	}
	s.call(t, "POST", "/api/v1/push", "{}", header("write-only")).expect(t, 200, `{"route":"/api/v1/push","params":[]}`)
	s.call(t, "POST", "/api/v1/push", "{}", header("read-only")).expect(t, 403, `{"error":"Insufficient permissions"}`)
	s.call(t, "GET", "/api/who", "", header("read-only")).expect(t, 200, `"someone"`)
	s.call(t, "GET", "/api/nope", "", header("read-only")).expect(t, 403, `{"error":"Insufficient permissions"}`)
	s.call(t, "GET", "/api/nope", "", header("admin")).expect(t, 404, `{"code":"no_such_route","error":"not found","path":"/api/nope"}`)
}
