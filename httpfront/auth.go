package httpfront

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// AuthConfig is the JWT part of the configuration (cluster 1.11). At least one key source is set.
type AuthConfig struct {
	// Algorithm is the only one accepted; "auto" accepts those that fit the key.
	Algorithm string
	// Secret, PublicKey (PEM) and JWKSURL are the key sources.
	Secret    string
	PublicKey string
	JWKSURL   string
	// JWKSRefresh and JWKSTimeout belong to JWKSURL.
	JWKSRefresh time.Duration
	JWKSTimeout time.Duration
	// Issuer and Audience are checked when set.
	Issuer   string
	Audience string
	// ClockSkew is the leeway of all instants.
	ClockSkew time.Duration
	// RequireExp refuses tokens without exp.
	RequireExp bool
	// RolesClaim holds one role, RolesArrayClaim a list of them.
	RolesClaim      string
	RolesArrayClaim string
	// The names of the four roles.
	RoleAdmin, RoleReadWrite, RoleReadOnly, RoleWriteOnly string
	// SkipPaths need no token. An entry that ends in /, except / itself, covers its subtree.
	SkipPaths []string
	// Log receives failures to fetch keys.
	Log zerolog.Logger
	// Now is the clock of the checks; nil is time.Now.
	Now func() time.Time
}

// Authenticator checks tokens. Its methods may be called from all goroutines.
type Authenticator struct {
	config    AuthConfig
	parser    *jwt.Parser
	levels    map[string]Level
	publicKey any
	jwks      keyfunc.Keyfunc
	skipExact map[string]bool
	skipTrees []string
	cancel    context.CancelFunc
}

// minUnknownKeyRefetch is how often an unknown key id may fetch the key set again: tokens with made-up ids must not turn
// into requests to the identity provider (cluster 1.11).
const minUnknownKeyRefetch = 5 * time.Second

// maxTokenBytes bounds a token. It always fits the 16 KiB of a request head.
const maxTokenBytes = 16 << 10

// NewAuthenticator reads the keys. With a JWKS URL it starts the fetching of keys, which Close ends; a provider that
// does not answer yet is no error.
func NewAuthenticator(config AuthConfig) (*Authenticator, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &Authenticator{
		config: config,
		parser: jwt.NewParser(jwt.WithoutClaimsValidation()),
		levels: map[string]Level{
			config.RoleWriteOnly: LevelWriteOnly,
			config.RoleReadOnly:  LevelReadOnly,
			config.RoleReadWrite: LevelReadWrite | LevelReadOnly | LevelWriteOnly,
			config.RoleAdmin:     LevelAdmin | LevelReadWrite | LevelReadOnly | LevelWriteOnly,
		},
		skipExact: map[string]bool{},
		cancel:    cancel,
	}
	if err := a.readKeys(ctx); err != nil {
		cancel()
		return nil, err
	}
	for _, path := range config.SkipPaths {
		if path = strings.TrimSpace(path); len(path) > 1 && strings.HasSuffix(path, "/") {
			a.skipTrees = append(a.skipTrees, path)
		} else if path != "" {
			a.skipExact[path] = true
		}
	}
	return a, nil
}

func (a *Authenticator) readKeys(ctx context.Context) error {
	c := &a.config
	if c.Secret == "" && c.PublicKey == "" && c.JWKSURL == "" {
		return errors.New("read JWT keys: none of JWT_SECRET, JWT_PUBLIC_KEY and JWT_JWKS_URL is set")
	}
	if c.PublicKey != "" {
		pem := []byte(strings.ReplaceAll(c.PublicKey, `\n`, "\n"))
		if key, err := jwt.ParseRSAPublicKeyFromPEM(pem); err == nil {
			a.publicKey = key
		} else if key, err := jwt.ParseEdPublicKeyFromPEM(pem); err == nil {
			a.publicKey = key
		} else {
			return errors.New("read JWT_PUBLIC_KEY: it is neither an RSA nor an Ed25519 key in PEM")
		}
	}
	if c.JWKSURL == "" {
		return nil
	}
	jwks, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{c.JWKSURL}, keyfunc.Override{
		HTTPTimeout:       c.JWKSTimeout,
		RefreshInterval:   c.JWKSRefresh,
		RateLimitWaitMax:  c.JWKSTimeout,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(minUnknownKeyRefetch), 1),
		RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
			return func(_ context.Context, err error) { c.Log.Warn().Err(err).Msg("jwt: fetch of the key set failed") }
		},
	})
	if err != nil {
		return fmt.Errorf("read JWT_JWKS_URL: %w", err)
	}
	a.jwks = jwks
	return nil
}

// Close ends the fetching of keys.
func (a *Authenticator) Close() { a.cancel() }

// skips reports whether a raw path needs no token. It is compared as it was sent: a spelling with escapes is not skipped.
func (a *Authenticator) skips(path []byte) bool {
	if a.skipExact[string(path)] {
		return true
	}
	for _, tree := range a.skipTrees {
		if bytes.HasPrefix(path, []byte(tree)) {
			return true
		}
	}
	return false
}

// The refusals of tokens, exact in text (messaging 2.6).
var (
	errNoToken      = RefuseStatus(401, "Authentication required")
	errTokenHeader  = RefuseStatus(401, "Bad token header")
	errSignature    = RefuseStatus(401, "Invalid token signature")
	errExpired      = RefuseStatus(401, "Token has expired")
	errNoExpiry     = RefuseStatus(401, "Token has no expiry")
	errNotYetValid  = RefuseStatus(401, "Token not yet valid")
	errFutureIssue  = RefuseStatus(401, "Token issued in the future")
	errIssuer       = RefuseStatus(401, "Invalid token issuer")
	errAudience     = RefuseStatus(401, "Invalid token audience")
	errAlgorithm    = RefuseStatus(401, "Unsupported token algorithm")
	errUnknownKey   = RefuseStatus(401, "Unknown key ID")
	errNoPermission = RefuseStatus(403, "Insufficient permissions")
)

// principal is who a request comes from.
type principal struct {
	subject string
	levels  Level
}

// check decides whether a request may use a route of a level. path is the raw path, authorization the value of that
// header. The error is a refusal with 401 or 403.
func (a *Authenticator) check(path, authorization []byte, level Level) (subject string, refusal *Error) {
	if level == LevelPublic || a.skips(path) {
		return "", nil
	}
	token, ok := bearer(authorization)
	if !ok {
		return "", errNoToken
	}
	who, refusal := a.verify(token)
	if refusal != nil {
		return "", refusal
	}
	if who.levels&level == 0 {
		return "", errNoPermission
	}
	return who.subject, nil
}

func bearer(authorization []byte) (string, bool) {
	const scheme = "bearer "
	if len(authorization) <= len(scheme) || len(authorization) > maxTokenBytes ||
		!strings.EqualFold(string(authorization[:len(scheme)]), scheme) {
		return "", false
	}
	token := strings.TrimSpace(string(authorization[len(scheme):]))
	return token, token != ""
}

func (a *Authenticator) verify(token string) (principal, *Error) {
	claims := jwt.MapClaims{}
	_, err := a.parser.ParseWithClaims(token, claims, a.key)
	if err != nil {
		if refusal, ok := errors.AsType[*Error](err); ok {
			return principal{}, refusal
		}
		switch {
		case errors.Is(err, jwt.ErrTokenSignatureInvalid):
			return principal{}, errSignature
		case errors.Is(err, jwt.ErrTokenUnverifiable):
			return principal{}, errAlgorithm
		}
		return principal{}, errTokenHeader
	}
	if refusal := a.checkClaims(claims); refusal != nil {
		return principal{}, refusal
	}
	subject, _ := claims["sub"].(string)
	return principal{subject: subject, levels: a.rolesOf(claims)}, nil
}

// algorithms are the signature methods that are accepted at all, by the kind of key that they need.
var algorithms = map[string]keyKind{
	"HS256": keySecret, "HS384": keySecret, "HS512": keySecret,
	"RS256": keyRSA, "RS384": keyRSA, "RS512": keyRSA,
	"EdDSA": keyEd25519,
}

// keyKind is the kind of a key.
type keyKind uint8

const (
	keySecret keyKind = iota + 1
	keyRSA
	keyEd25519
)

// key finds the key for a token whose signature has not been checked. An algorithm is accepted only with a key of its
// own kind: a public key must never serve as a secret.
func (a *Authenticator) key(token *jwt.Token) (any, error) {
	algorithm := token.Method.Alg()
	kind, known := algorithms[algorithm]
	if !known || a.config.Algorithm != "auto" && a.config.Algorithm != algorithm {
		return nil, errAlgorithm
	}
	if kind == keySecret {
		if a.config.Secret == "" {
			return nil, errAlgorithm
		}
		return []byte(a.config.Secret), nil
	}
	_, named := token.Header["kid"]
	if a.jwks != nil && (named || a.publicKey == nil) {
		key, err := a.jwks.Keyfunc(token)
		if err != nil {
			return nil, errUnknownKey
		}
		if set, ok := key.(jwt.VerificationKeySet); ok {
			return fittingKeys(set, kind)
		}
		return fittingKey(key, kind)
	}
	if a.publicKey == nil {
		return nil, errAlgorithm
	}
	return fittingKey(a.publicKey, kind)
}

func kindOfKey(key any) keyKind {
	switch key.(type) {
	case *rsa.PublicKey:
		return keyRSA
	case ed25519.PublicKey:
		return keyEd25519
	}
	return 0
}

func fittingKey(key any, kind keyKind) (any, error) {
	if kindOfKey(key) != kind {
		return nil, errAlgorithm
	}
	return key, nil
}

func fittingKeys(set jwt.VerificationKeySet, kind keyKind) (any, error) {
	var fitting jwt.VerificationKeySet
	for _, key := range set.Keys {
		if kindOfKey(key) == kind {
			fitting.Keys = append(fitting.Keys, key)
		}
	}
	if len(fitting.Keys) == 0 {
		return nil, errUnknownKey
	}
	return fitting, nil
}

// checkClaims checks the registered claims. A claim of a wrong type counts against the token.
func (a *Authenticator) checkClaims(claims jwt.MapClaims) *Error {
	now, skew := a.config.Now(), a.config.ClockSkew
	expiry, err := claims.GetExpirationTime()
	switch {
	case err != nil, expiry == nil && a.config.RequireExp:
		return errNoExpiry
	case expiry != nil && !now.Before(expiry.Add(skew)):
		return errExpired
	}
	if begin, err := claims.GetNotBefore(); err != nil || begin != nil && now.Before(begin.Add(-skew)) {
		return errNotYetValid
	}
	if issued, err := claims.GetIssuedAt(); err != nil || issued != nil && now.Before(issued.Add(-skew)) {
		return errFutureIssue
	}
	if a.config.Issuer != "" {
		if issuer, err := claims.GetIssuer(); err != nil || issuer != a.config.Issuer {
			return errIssuer
		}
	}
	if a.config.Audience != "" {
		audience, err := claims.GetAudience()
		for _, name := range audience {
			if err == nil && name == a.config.Audience {
				return nil
			}
		}
		return errAudience
	}
	return nil
}

// rolesOf joins the levels of all roles of a token. Roles that are not known pass nothing.
func (a *Authenticator) rolesOf(claims jwt.MapClaims) Level {
	var levels Level
	if role, ok := claims[a.config.RolesClaim].(string); ok {
		levels |= a.levels[role]
	}
	list, _ := claims[a.config.RolesArrayClaim].([]any)
	for _, element := range list {
		if role, ok := element.(string); ok {
			levels |= a.levels[role]
		}
	}
	return levels
}
