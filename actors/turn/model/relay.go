package model

import (
	"net/url"
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
		return "", invalid("the model's base URL is not an http or https URL")
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + path
	base.RawPath, base.Fragment = "", ""
	return base.String(), nil
}
