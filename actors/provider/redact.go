package provider

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"parley/actors/core/letters"
	"parley/proto/agentpb"
)

// maxWords is how many bytes of a provider's own words a Failure repeats.
const maxWords = 2000

// Hidden stands for what a Redactor has removed.
const Hidden = "[redacted]"

var (
	credentialPattern = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;]+|\b(sk|pk|rk|key)-[A-Za-z0-9_\-*.]{6,}`)
	urlPattern        = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.\-]*://)([^\s/"'<>]*@)?([^\s"'<>?]*)(\?[^\s"'<>]*)?`)
	dataURLPattern    = regexp.MustCompile(`data:[a-zA-Z0-9.+/\-]*[;,][^\s"'<>]*`)
)

// Redactor makes text of others fit to show and to log: providers and transports repeat keys and addresses in their errors. The
// zero value knows no secrets and still removes what looks like one.
type Redactor struct {
	model *agentpb.Model // its secrets are looked at when there is something to clean
	known []string
}

// RedactorOf knows all that is secret of a model: its key, the values of its headers, and what its base URL carries beside
// scheme, host and path.
func RedactorOf(model *agentpb.Model) Redactor { return Redactor{model: model} }

// NewRedactor knows a key, what an address carries beside scheme, host and path, and further secrets.
func NewRedactor(key, address string, further ...string) Redactor {
	var secrets []string
	add := func(secret string) {
		if secret = strings.TrimSpace(secret); secret != "" {
			secrets = append(secrets, secret)
		}
	}
	add(key)
	if parsed, err := url.Parse(address); err == nil {
		if parsed.User != nil {
			password, _ := parsed.User.Password()
			add(password)
			add(parsed.User.Username())
		}
		for _, values := range parsed.Query() {
			for _, value := range values {
				add(value)
			}
		}
	}
	return Redactor{known: append(secrets, further...)}
}

func (r Redactor) secrets() []string {
	if r.model == nil {
		return r.known
	}
	const shortest = 8 // what is shorter is no secret, and part of words
	var headers []string
	for _, value := range r.model.GetHeaders() {
		if value = strings.TrimSpace(value); len(value) >= shortest {
			headers = append(headers, value)
		}
	}
	return NewRedactor(r.model.GetApiKey(), r.model.GetBaseUrl(), headers...).known
}

// Clean returns text on one line, at most limit bytes, without the known secrets, what looks like a key, the data of data URLs,
// and the userinfo and query of URLs.
func (r Redactor) Clean(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = dataURLPattern.ReplaceAllString(text, Hidden)
	for _, secret := range r.secrets() {
		text = strings.ReplaceAll(text, secret, Hidden)
	}
	text = urlPattern.ReplaceAllString(text, "$1$3")
	text = credentialPattern.ReplaceAllString(text, Hidden)
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	return letters.Shorten(strings.Join(strings.Fields(text), " "), limit)
}
