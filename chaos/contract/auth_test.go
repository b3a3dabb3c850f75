package contract

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

const (
	jwtSecret   = "a secret that only this test and its broker know"
	jwtIssuer   = "https://issuer.example"
	jwtAudience = "queen"
)

// roleLevels is the table of 2.6: which levels a role passes.
var roleLevels = map[string][]string{
	"write-only": {levelWriteOnly},
	"read-only":  {levelReadOnly},
	"read-write": {levelReadWrite, levelReadOnly, levelWriteOnly},
	"admin":      {levelReadWrite, levelReadOnly, levelWriteOnly, levelAdmin},
}

// claims makes valid claims for a role, changed by overrides; a nil override removes the claim.
func claims(role string, overrides map[string]any) map[string]any {
	all := map[string]any{"sub": "tester", "role": role, "iss": jwtIssuer, "aud": jwtAudience,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range overrides {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

func needUnauthorized(t *testing.T, answer harness.Response, text string) {
	t.Helper()
	needBody(t, answer, 401, `{"error":"`+text+`"}`)
}

func TestJWTAuthentication_2_6(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"JWT_ENABLED": "true", "JWT_SECRET": jwtSecret,
		"JWT_ISSUER": jwtIssuer, "JWT_AUDIENCE": jwtAudience}).Client()
	as := func(role string, overrides map[string]any) *harness.Client {
		return client.WithToken(harness.Token(jwtSecret, claims(role, overrides)))
	}
	t.Run("refused tokens", func(t *testing.T) { refusedTokens(t, client, as) })
	t.Run("accepted tokens", func(t *testing.T) { acceptedTokens(t, as) })
	t.Run("levels of the route table", func(t *testing.T) { routeLevels(t, client, as) })
	t.Run("levels of other paths", func(t *testing.T) { otherLevels(t, client, as) })
	t.Run("producerSub", func(t *testing.T) { producerSub(t, as) })
}

func refusedTokens(t *testing.T, client *harness.Client, as func(string, map[string]any) *harness.Client) {
	const path = "/status"
	now := time.Now()
	unix := func(offset time.Duration) int64 { return now.Add(offset).Unix() }
	bearer := func(token string) *harness.Client { return client.WithToken(token) }
	valid := claims("admin", nil)
	cases := []struct {
		name   string
		client *harness.Client
		text   string
	}{
		{"no header", client, "Authentication required"},
		{"garbage", bearer("abc"), "Bad token header"},
		{"a header that is not JSON", bearer("!!!.e30.x"), "Bad token header"},
		{"another secret", bearer(harness.Token("other", valid)), "Invalid token signature"},
		{"a cut signature", bearer(withoutTail(harness.Token(jwtSecret, valid))), "Invalid token signature"},
		{"expired", as("admin", map[string]any{"exp": unix(-time.Minute)}), "Token has expired"},
		{"no expiry", as("admin", map[string]any{"exp": nil}), "Token has no expiry"},
		{"not yet valid", as("admin", map[string]any{"nbf": unix(time.Minute)}), "Token not yet valid"},
		{"issued in the future", as("admin", map[string]any{"iat": unix(time.Minute)}), "Token issued in the future"},
		{"another issuer", as("admin", map[string]any{"iss": "https://evil.example"}), "Invalid token issuer"},
		{"no issuer", as("admin", map[string]any{"iss": nil}), "Invalid token issuer"},
		{"another audience", as("admin", map[string]any{"aud": "else"}), "Invalid token audience"},
		{"no audience", as("admin", map[string]any{"aud": nil}), "Invalid token audience"},
		{"algorithm none", bearer(harness.TokenWithHeader("", map[string]any{"alg": "none"}, valid)), "Unsupported token algorithm"},
		{"another algorithm", bearer(harness.TokenWithHeader(jwtSecret, map[string]any{"alg": "HS512"}, valid)), "Unsupported token algorithm"},
		{"an unknown algorithm", bearer(harness.TokenWithHeader(jwtSecret, map[string]any{"alg": "XX1"}, valid)), "Unsupported token algorithm"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { needUnauthorized(t, c.client.Get(path), c.text) })
	}
	t.Run("nothing takes effect", func(t *testing.T) {
		needUnauthorized(t, client.Push(harness.Item{Queue: "refused", Payload: 1}).Response, "Authentication required")
		need(t, as("admin", nil).Get("/api/v1/resources/queues/refused"), 404)
	})
	t.Run("a role passes its levels only", func(t *testing.T) {
		for _, role := range []string{"nobody", "", "ADMIN", "write-only"} {
			needBody(t, as(role, nil).Get(path), 403, `{"error":"Insufficient permissions"}`)
		}
		needBody(t, as("", map[string]any{"role": nil}).Get(path), 403, `{"error":"Insufficient permissions"}`)
	})
}

func acceptedTokens(t *testing.T, as func(string, map[string]any) *harness.Client) {
	now := time.Now()
	cases := map[string]map[string]any{
		"plain":                         nil,
		"expired within the clock skew": {"exp": now.Add(-5 * time.Second).Unix()},
		"not yet valid within the skew": {"nbf": now.Add(10 * time.Second).Unix()},
		"issued within the skew":        {"iat": now.Add(10 * time.Second).Unix()},
		"several audiences":             {"aud": []string{"else", jwtAudience}},
		"role in the array claim":       {"role": nil, "roles": []string{"else", "read-only"}},
		"no iat":                        {"iat": nil},
		"no sub":                        {"sub": nil},
	}
	for name, overrides := range cases {
		t.Run(name, func(t *testing.T) { need(t, as("read-only", overrides).Get("/status"), 200) })
	}
}

// routeLevels sends every row of section 3, and every route of an operator, with every role. What a role may do must not be refused for lack of
// permission; what the handler then says is no concern here.
func routeLevels(t *testing.T, client *harness.Client, as func(string, map[string]any) *harness.Client) {
	for _, row := range append(routeTable(), operatorRoutes()...) {
		request := harness.Request{Method: row.method, Path: row.path}
		answer := client.Do(request)
		if refused := answer.Status == 401; answer.Err != nil || refused == (row.level == levelPublic) {
			t.Errorf("%s %s (%s) without a token: got %v", row.method, row.path, row.level, answer)
		}
		for _, role := range slices.Sorted(maps.Keys(roleLevels)) {
			answer := as(role, nil).Do(request)
			refused := answer.Status == 403 && string(answer.Body) == `{"error":"Insufficient permissions"}`
			passes := row.level == levelPublic || slices.Contains(roleLevels[role], row.level)
			if answer.Err != nil || answer.Status == 401 || refused == passes {
				t.Errorf("%s %s (%s) as %s: got %v", row.method, row.path, row.level, role, answer)
			}
		}
	}
}

func otherLevels(t *testing.T, client *harness.Client, as func(string, map[string]any) *harness.Client) {
	t.Run("a path that no table names is read-write", func(t *testing.T) {
		needUnauthorized(t, client.Get("/api/v1/nowhere"), "Authentication required")
		need(t, as("read-only", nil).Get("/api/v1/nowhere"), 403)
		need(t, as("write-only", nil).Get("/api/v1/nowhere"), 403)
		need(t, as("read-write", nil).Get("/api/v1/nowhere"), 404)
	})
	t.Run("the dashboard is public", func(t *testing.T) {
		need(t, client.Get("/"), 200)
		need(t, client.Get("/queues"), 200)
	})
	t.Run("the default skip paths are public, also with a bad token", func(t *testing.T) {
		for _, path := range []string{"/health", "/metrics", "/metrics/prometheus", "/"} {
			need(t, client.Get(path), 200)
			need(t, client.WithToken("garbage").Get(path), 200)
		}
	})
	t.Run("HEAD where GET has no HEAD is a path that no table names", func(t *testing.T) {
		head := harness.Request{Method: "HEAD", Path: "/status"}
		need(t, client.Do(head), 401)
		need(t, as("read-write", nil).Do(head), 405)
	})
	t.Run("write-only pushes and does nothing else", func(t *testing.T) {
		pusher := as("write-only", nil)
		need(t, pusher.Push(harness.Item{Queue: "w", Payload: 1}).Response, 201)
		const refusal = `{"error":"Insufficient permissions"}`
		needBody(t, pusher.Pop("w", "").Response, 403, refusal) // in the one shape, on every route
		needBody(t, pusher.Transaction(map[string]any{"operations": []any{}}).Response, 403, refusal)
		needBody(t, pusher.Post("/api/v1/fetch", `{"entries":[]}`), 403, refusal)
		needBody(t, pusher.Get("/api/v1/push"), 403, refusal) // a method the path does not have
		needBody(t, pusher.Get("/api/v1/nowhere"), 403, refusal)
		need(t, pusher.Get("/health"), 200)
	})
	t.Run("no role but read-write and admin may push and pop", func(t *testing.T) {
		need(t, as("read-only", nil).Push(harness.Item{Queue: "w", Payload: 1}).Response, 403)
		for _, role := range []string{"read-write", "admin"} {
			need(t, as(role, nil).Push(harness.Item{Queue: "w", Payload: 1}).Response, 201)
			needMessageCount(t, as(role, nil).Pop("w", "commitOnDelivery=true&batch=1"), 1)
		}
		need(t, as("read-write", nil).DeleteQueue("w"), 403)
		need(t, as("admin", nil).DeleteQueue("w"), 200)
	})
}

func producerSub(t *testing.T, as func(string, map[string]any) *harness.Client) {
	admin := as("admin", nil)
	t.Run("a pushed item of a transaction carries it, and so does the copy of a dead letter", func(t *testing.T) {
		alice := as("read-write", map[string]any{"sub": "alice"})
		push := pushOperation("subs", "t")
		push["producerSub"] = "mallory"
		needCommitted(t, alice.Transaction(operations([]any{push})))
		needSub := func() harness.Message {
			t.Helper()
			popped := admin.Pop("subs", "leaseSeconds=60")
			needMessageCount(t, popped, 1)
			if sub := popped.Messages[0].ProducerSub; sub == nil || *sub != "alice" {
				t.Fatalf("got %v", popped)
			}
			return popped.Messages[0]
		}
		needVerdicts(t, admin.AckMessages("dlq", needSub()), filed)
		letter := firstObject(admin.Get("/api/v1/dlq?queue=subs").Object()["messages"])
		needReplayed(t, admin.Post(fmt.Sprint("/api/v1/dlq/", letter["id"], "/replay"), nil), "moved")
		needSub()
	})
	cases := []struct {
		name string
		sub  any
		want string
	}{{"the verified sub", "alice@example", "alice@example"}, {"an empty sub is null", "", ""}, {"no sub is null", nil, ""}}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			queue := fmt.Sprint("sub", i)
			body := fmt.Sprintf(`{"producerSub":"mallory","items":[{"queue":%q,"payload":{"producerSub":"x"},"producerSub":"mallory"}]}`, queue)
			need(t, as("write-only", map[string]any{"sub": c.sub}).PushBody(body).Response, 201)
			popped := admin.Pop(queue, "")
			needMessageCount(t, popped, 1)
			got := popped.Messages[0].ProducerSub
			if c.want == "" && got != nil || c.want != "" && (got == nil || *got != c.want) {
				t.Fatalf("want %q, got %v", c.want, popped)
			}
		})
	}
}

// 2.6: HEAD has the level of GET, which shows on the metrics once JWT_SKIP_PATHS does not open them.
func TestHeadHasTheLevelOfGet_2_6(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"JWT_ENABLED": "true", "JWT_SECRET": jwtSecret, "JWT_SKIP_PATHS": "/health"}).Client()
	for _, method := range []string{"GET", "HEAD"} {
		for _, path := range []string{"/metrics", "/metrics/prometheus"} {
			request := harness.Request{Method: method, Path: path}
			need(t, client.Do(request), 401)
			for role, levels := range roleLevels {
				want := 403
				if slices.Contains(levels, levelReadOnly) {
					want = 200
				}
				need(t, client.WithToken(harness.Token(jwtSecret, claims(role, nil))).Do(request), want)
			}
		}
		need(t, client.Do(harness.Request{Method: method, Path: "/health"}), 200)
		need(t, client.Do(harness.Request{Method: method, Path: "/some/page"}), 200) // the dashboard is public
	}
}

func TestProducerSubIsNullWithoutAuthentication_2_6(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	body := fmt.Sprintf(`{"items":[{"queue":%q,"payload":1,"producerSub":"mallory"}]}`, queue)
	need(t, suite.client.WithToken("whatever").PushBody(body).Response, 201)
	popped := suite.client.Pop(queue, "")
	needMessageCount(t, popped, 1)
	if got := popped.Messages[0].ProducerSub; got != nil {
		t.Fatalf("want null, got %q", *got)
	}
}

func TestKeysFromAKeySet_2_6(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	keySet, err := json.Marshal(map[string]any{"keys": []any{map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1",
		"n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}}})
	if err != nil {
		t.Fatal(err)
	}
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(keySet)
	}))
	t.Cleanup(keys.Close)
	client := privateBroker(t, map[string]string{"JWT_ENABLED": "true", "JWT_ALGORITHM": "RS256", "JWT_JWKS_URL": keys.URL,
		"JWT_SKIP_PATHS": "/health,/api/v1/status/"}).Client()
	token := func(kid string) string {
		unsigned := harness.TokenWithHeader("", map[string]any{"alg": "RS256", "kid": kid}, claims("read-only", nil))
		signed := unsigned[:strings.LastIndexByte(unsigned, '.')]
		digest := sha256.Sum256([]byte(signed))
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
		if err != nil {
			t.Fatal(err)
		}
		return signed + "." + encode(signature)
	}
	t.Run("a key of the set verifies", func(t *testing.T) { need(t, client.WithToken(token("k1")).Get("/status"), 200) })
	t.Run("an unknown key id", func(t *testing.T) {
		needUnauthorized(t, client.WithToken(token("k2")).Get("/status"), "Unknown key ID")
	})
	t.Run("a secret is no key", func(t *testing.T) {
		needUnauthorized(t, client.WithToken(harness.Token("x", claims("admin", nil))).Get("/status"), "Unsupported token algorithm")
	})
	t.Run("a skip path ending in a slash covers its subtree", func(t *testing.T) {
		need(t, client.Get("/api/v1/status/queues"), 200)
		need(t, client.Get("/api/v1/status"), 401)
	})
}

// withoutTail cuts the end of a token, and with it of its signature.
func withoutTail(token string) string { return token[:len(token)-4] }
