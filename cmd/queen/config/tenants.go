package config

import (
	"net/url"
	"strings"

	"github.com/google/uuid"
)

const allowedTenantGroups = "tenant=group,… with the UUID of each tenant once"

func parseTenantGroups(text string) (map[string]int, error) {
	groups := map[string]int{}
	for _, item := range strings.Split(text, ",") {
		tenantText, groupText, found := strings.Cut(item, "=")
		if !found {
			return nil, errNotAllowed
		}
		tenant, err := uuid.Parse(tenantText)
		if err != nil {
			return nil, errNotAllowed
		}
		group, err := parseWhole(groupText)
		if _, repeated := groups[tenant.String()]; err != nil || group > highestGroup || repeated {
			return nil, errNotAllowed
		}
		groups[tenant.String()] = int(group)
	}
	return groups, nil
}

const (
	allowedSlug = "a slug of 1 to 63 of a-z 0-9 -, beginning with a letter or digit"
	// maxSlugBytes keeps a slug usable as a DNS label.
	maxSlugBytes = 63
)

func isSlug(text string) bool {
	return len(text) <= maxSlugBytes && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && text[0] != '-'
}

const (
	allowedAPIKey = "an API key qk_<env>_<43 base64url characters> with 1 to 16 of a-z 0-9 as env"
	// apiKeySecretBytes is the base64url length of the 32 random bytes of a key (operations 7.2).
	apiKeySecretBytes = 43
	maxAPIKeyEnvBytes = 16
)

func isAPIKey(text string) bool {
	body, isKey := strings.CutPrefix(text, "qk_")
	environment, secret, found := strings.Cut(body, "_")
	if !isKey || !found || len(secret) != apiKeySecretBytes || environment == "" || len(environment) > maxAPIKeyEnvBytes {
		return false
	}
	const lowerAndDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
	return strings.Trim(environment, lowerAndDigits) == "" &&
		strings.Trim(secret, lowerAndDigits+"ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
}

const allowedURL = "an http or https URL"

func isHTTPURL(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Host != ""
}

// redactURL hides the password that a URL can carry; a text that is no URL may hold one anywhere.
func redactURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return mask(text)
	}
	return parsed.Redacted()
}

const allowedPaths = "a comma list of paths that begin with /"

func parsePaths(text string) ([]string, error) {
	paths := strings.Split(text, ",")
	for _, path := range paths {
		if !strings.HasPrefix(path, "/") {
			return nil, errNotAllowed
		}
	}
	return paths, nil
}

const allowedNamespaceKey = "<ns>/<key>"

func isNamespaceKey(text string) bool {
	namespace, key, found := strings.Cut(text, "/")
	return found && namespace != "" && key != ""
}
