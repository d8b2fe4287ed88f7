package model

import (
	"net/url"
	"regexp"
	"strings"

	"parley/proto/agentpb"
)

// What those need who pass requests on to an OpenAI-compatible provider as they are, beside the adapters.

// OpenAIURL is where a path ("/embeddings") of a model's OpenAI-compatible service is. An *Error says that the model's base
// URL is none.
func OpenAIURL(model *agentpb.Model, path string) (string, error) {
	if model.GetBaseUrl() == "" {
		return openAIHome + path, nil
	}
	base, err := url.Parse(model.GetBaseUrl())
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return "", invalid("the model's base URL is not an http or https URL").failure
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + path
	base.RawPath, base.Fragment = "", ""
	return base.String(), nil
}

var dataURLPattern = regexp.MustCompile(`data:[a-zA-Z0-9.+/\-]*[;,][^\s"'<>]*`)

// Redact makes a provider's words fit to show: on one line, at most limit bytes, without what is secret of the model, without
// what looks like a key, and without the data of data URLs.
func Redact(model *agentpb.Model, text string, limit int) string {
	text = dataURLPattern.ReplaceAllString(text, hidden)
	return secretsOf(model).cleanTo(text, limit)
}
