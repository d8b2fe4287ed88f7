package model

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/proto/agentpb"
)

// maxShownText is how many bytes of a provider's own words an error repeats.
const maxShownText = 400

const hidden = "[redacted]"

var (
	credentialPattern = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;]+|\b(sk|pk|rk|key)-[A-Za-z0-9_\-*.]{6,}`)
	urlPattern        = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.\-]*://)([^\s/"'<>]*@)?([^\s"'<>?]*)(\?[^\s"'<>]*)?`)
)

// redactor makes text of others fit to show and to log: providers and transports repeat keys and addresses in their errors.
type redactor struct{ secrets []string }

// newRedactor knows the secrets of one call: the key, and what the base URL carries beside scheme, host and path.
func newRedactor(apiKey, baseURL string) redactor {
	var secrets []string
	add := func(secret string) {
		if secret = strings.TrimSpace(secret); secret != "" {
			secrets = append(secrets, secret)
		}
	}
	add(apiKey)
	if base, err := url.Parse(baseURL); err == nil {
		if base.User != nil {
			password, _ := base.User.Password()
			add(password)
			add(base.User.Username())
		}
		for _, values := range base.Query() {
			for _, value := range values {
				add(value)
			}
		}
	}
	return redactor{secrets: secrets}
}

// secretsOf is a redactor of all that is secret of a model.
func secretsOf(model *agentpb.Model) redactor {
	const shortest = 8 // what is shorter is no secret, and part of words
	known := newRedactor(model.GetApiKey(), model.GetBaseUrl())
	for _, value := range model.GetHeaders() {
		if value = strings.TrimSpace(value); len(value) >= shortest {
			known.secrets = append(known.secrets, value)
		}
	}
	return known
}

// clean returns text on one line, without secrets, cut to a length to show.
func (r redactor) clean(text string) string { return r.cleanTo(text, maxShownText) }

func (r redactor) cleanTo(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	text = urlPattern.ReplaceAllString(text, "$1$3")
	text = credentialPattern.ReplaceAllString(text, hidden)
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= limit {
		return text
	}
	end := limit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
