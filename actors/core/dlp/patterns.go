package dlp

import (
	"math"
	"strings"
	"sync"
)

// Secrets.
const (
	PrivateKey     Kind = "private_key"
	SignedToken    Kind = "jwt"
	CloudKeyID     Kind = "cloud_access_key_id"
	CloudSecret    Kind = "cloud_secret_key"
	CloudAPIKey    Kind = "cloud_api_key"
	SourceToken    Kind = "source_control_token"
	ChatToken      Kind = "chat_token"
	PaymentKey     Kind = "payment_key"
	ModelKey       Kind = "model_api_key"
	PackageToken   Kind = "package_registry_token"
	MailKey        Kind = "mail_api_key"
	ServiceToken   Kind = "service_token"
	WebhookSecret  Kind = "webhook_secret"
	URLPassword    Kind = "url_password"
	BearerToken    Kind = "bearer_token"
	AssignedSecret Kind = "assigned_secret"
	RandomToken    Kind = "random_token"
)

// token is the form of a token: what it begins with, which characters follow and how many.
type token struct {
	kind        Kind
	prefix      string
	follows     func(byte) bool
	least, most int
}

// tokens are the tokens by their first byte, in the order in which they are tried: longer prefixes before those that begin them.
var tokens = sync.OnceValue(func() *[256][]token { //nolint:gochecknoglobals // computed once, never changed
	var by [256][]token
	for _, t := range []token{
		{CloudKeyID, "AKIA", isUpperNumber, 16, 16},
		{CloudKeyID, "ASIA", isUpperNumber, 16, 16},
		{CloudAPIKey, "AIza", isURLSafe, 35, 35},
		{SourceToken, "github_pat_", isWord, 60, 100},
		{SourceToken, "glpat-", isURLSafe, 20, 60},
		{SourceToken, "ghp_", isAlnum, 36, 80},
		{SourceToken, "gho_", isAlnum, 36, 80},
		{SourceToken, "ghu_", isAlnum, 36, 80},
		{SourceToken, "ghs_", isAlnum, 36, 80},
		{SourceToken, "ghr_", isAlnum, 36, 80},
		{ChatToken, "xoxb-", isURLSafe, 20, 120},
		{ChatToken, "xoxp-", isURLSafe, 20, 120},
		{ChatToken, "xoxa-", isURLSafe, 20, 120},
		{ChatToken, "xoxr-", isURLSafe, 20, 120},
		{ChatToken, "xoxs-", isURLSafe, 20, 120},
		{ChatToken, "xapp-", isURLSafe, 20, 160},
		{PaymentKey, "sk_live_", isAlnum, 16, 120},
		{PaymentKey, "rk_live_", isAlnum, 16, 120},
		{PaymentKey, "sk_test_", isAlnum, 16, 120},
		{WebhookSecret, "whsec_", isBase64, 16, 120},
		{ModelKey, "sk-ant-", isURLSafe, 24, 200},
		{ModelKey, "sk-proj-", isURLSafe, 24, 220},
		{ModelKey, "sk-", isURLSafe, 32, 220},
		{ModelKey, "hf_", isAlnum, 30, 60},
		{ModelKey, "gsk_", isAlnum, 40, 60},
		{PackageToken, "npm_", isAlnum, 36, 36},
		{PackageToken, "pypi-", isURLSafe, 50, 250},
		{PackageToken, "dckr_pat_", isURLSafe, 20, 60},
		{MailKey, "SG.", isDotted, 40, 80},
		{MailKey, "key-", isHex, 32, 32},
		{ServiceToken, "service_", isHex, 64, 64},
		{SignedToken, "eyJ", isDotted, 20, 8 << 10},
	} {
		by[t.prefix[0]] = append(by[t.prefix[0]], t)
	}
	return &by
})

// tokenAt finds a token that begins at a word, but not in the middle of what could be one: so nothing is read again and again.
func (s *scanner) tokenAt(v view, i int) (end int, found bool) {
	if i > 0 && (v.text[i-1] == '-' || v.text[i-1] == '.' && v.text[i] == 'e') {
		return i, false
	}
	for _, t := range tokens()[v.text[i]] {
		if !strings.HasPrefix(v.text[i:], t.prefix) {
			continue
		}
		end := i + len(t.prefix)
		for end < len(v.text) && end-i-len(t.prefix) < t.most && t.follows(v.text[end]) {
			end++
		}
		value := v.text[i+len(t.prefix) : end]
		if len(value) < t.least || end < len(v.text) && t.follows(v.text[end]) && t.most == t.least {
			continue
		}
		if t.kind == SignedToken && strings.Count(value, ".") != 2 || t.kind == ModelKey && t.prefix == "sk-" && !mixed(value) {
			continue
		}
		value = strings.TrimRight(value, ".-_")
		end = i + len(t.prefix) + len(value)
		s.add(v, t.kind, Secret, i, end)
		return end, true
	}
	return i, false
}

// privateKey finds a key in PEM, up to its end or that of the text.
func (s *scanner) privateKey(v view, i int) int {
	const begin, kind, last = "-----BEGIN ", "PRIVATE KEY", "-----END "
	rest := v.text[i:]
	if !strings.HasPrefix(rest, begin) {
		return i
	}
	line, _, _ := strings.Cut(rest[:min(len(rest), 80)], "\n")
	if !strings.Contains(line, kind) {
		return i
	}
	end := len(v.text)
	if at := strings.Index(rest, last); at >= 0 {
		end = i + at + len(last)
		if more := strings.Index(v.text[end:], "-----"); more >= 0 && more < 60 {
			end += more + 5
		}
	}
	s.add(v, PrivateKey, Secret, i, end)
	return end
}

// urlPassword finds user:password@ behind "://" at i.
func (s *scanner) urlPassword(v view, i int) {
	const longest = 256
	from := i + len("://")
	colon := 0
	for k := from; k < len(v.text) && k < from+longest; k++ {
		switch c := v.text[k]; {
		case c == '/' || c == '"' || c == '\'' || c == '?' || c == '#' || isBlank(c):
			return
		case c == ':' && colon == 0:
			colon = k
		case c == '@':
			if colon > 0 && k > colon+3 && !placeholder(v.text[colon+1:k]) {
				s.add(v, URLPassword, Secret, colon+1, k)
			}
			return
		}
	}
}

// assigned finds the value behind the name of a secret: "password: ...", `"api_key": "..."`, "Authorization: Bearer ...".
func (s *scanner) assigned(v view, i int) {
	const longest = 256
	name := strings.ToLower(lastWord(v.text[:i]))
	if name != "authorization" && !isPassword(name) && !isSecretName(name) {
		return
	}
	from := i + 1
	for from < len(v.text) && from < i+6 && strings.IndexByte(" \t\"'`=>", v.text[from]) >= 0 {
		from++
	}
	end := from
	for end < len(v.text) && end-from < longest && strings.IndexByte(" \t\r\n\"'`,;<>", v.text[end]) < 0 {
		end++
	}
	value := v.text[from:end]
	switch {
	case name == "authorization" && (value == "Bearer" || value == "bearer" || value == "Basic" || value == "Token"):
		start := end + 1
		end = start
		for end < len(v.text) && (isBase64(v.text[end]) || v.text[end] == '.') {
			end++
		}
		if end-start >= 12 {
			s.add(v, BearerToken, Secret, start, end)
		}
	case len(value) < 6 || placeholder(value):
	case isPassword(name), len(value) >= 8 && mixed(value):
		kind := AssignedSecret
		if len(value) == 40 && strings.Contains(name, "secret") && isAll(value, isBase64) {
			kind = CloudSecret
		}
		s.add(v, kind, Secret, from, end)
	}
}

// lastWord is the name before an assignment, without quotes.
func lastWord(text string) string {
	text = strings.TrimRight(text, " \t\"'`")
	start := len(text)
	for start > 0 && len(text)-start < 40 && (isWord(text[start-1]) || text[start-1] == '-') {
		start--
	}
	return text[start:]
}

func isPassword(name string) bool {
	for _, part := range []string{"password", "passwd", "passphrase", "parola", "şifre", "sifre"} {
		if strings.HasSuffix(name, part) {
			return true
		}
	}
	return name == "pwd" || strings.HasSuffix(name, "_pwd")
}

func isSecretName(name string) bool {
	for _, part := range []string{"secret", "token", "apikey", "api_key", "api-key", "access_key", "access-key", "accesskey", "auth_key", "private_key", "credential", "encryption_key", "signing_key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// placeholder says that a value stands for a secret and is none.
func placeholder(value string) bool {
	lower := strings.ToLower(value)
	for _, word := range []string{"example", "change-me", "changeme", "your", "xxxx", "****", "placeholder", "redacted", "null", "undefined", "process.env", "os.environ", "getenv"} {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return strings.ContainsAny(value[:1], "$<{%[(") || strings.Trim(value, value[:1]) == ""
}

// random finds a long token without a form: letters of both cases and digits, evenly spread. A line of dashes is in none, but may begin a key.
func (s *scanner) random(v view, i int) int {
	const least, most, entropy, line = 32, 128, 4.2, "-----"
	end := i
	for end < len(v.text) && isURLSafe(v.text[end]) && (v.text[end] != '-' || !strings.HasPrefix(v.text[end:], line)) {
		end++
	}
	value := v.text[i:end]
	if len(value) >= least && len(value) <= most && cases(value) && bits(value) >= entropy && strings.Count(value, "-") <= 2 && !words(value) {
		s.add(v, RandomToken, Secret, i, end)
	}
	return end
}

// words says whether a value is base64 of words: what those say is looked at where it is decoded.
func words(value string) bool {
	plain, is := plainOf(value)
	return is && strings.Contains(plain, " ")
}

// cases says whether a value has letters of both cases and digits, the latter in more than one place.
func cases(value string) bool {
	upper, lower, digits := 0, 0, 0
	for i := range len(value) {
		switch c := value[i]; {
		case c >= 'A' && c <= 'Z':
			upper++
		case c >= 'a' && c <= 'z':
			lower++
		case isDigit(c) && (i == 0 || !isDigit(value[i-1])):
			digits++
		}
	}
	return upper >= 4 && lower >= 4 && digits >= 3
}

// mixed says whether a value has both letters and digits, and is no single word.
func mixed(value string) bool {
	letters, digits := false, false
	for i := range len(value) {
		letters = letters || isLetter(value[i])
		digits = digits || isDigit(value[i])
	}
	return letters && digits && bits(value) >= 2.5
}

// bits is Shannon's entropy of a value, per byte.
func bits(value string) float64 {
	var counts [256]int
	for i := range len(value) {
		counts[value[i]]++
	}
	sum := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(value))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}

func isDigit(c byte) bool       { return c >= '0' && c <= '9' }
func isLetter(c byte) bool      { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isAlnum(c byte) bool       { return isDigit(c) || isLetter(c) }
func isWord(c byte) bool        { return isAlnum(c) || c == '_' }
func isUpperNumber(c byte) bool { return isDigit(c) || c >= 'A' && c <= 'Z' }
func isURLSafe(c byte) bool     { return isWord(c) || c == '-' }
func isDotted(c byte) bool      { return isURLSafe(c) || c == '.' }
func isBase64(c byte) bool      { return isURLSafe(c) || c == '+' || c == '/' || c == '=' }
func isHex(c byte) bool         { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
