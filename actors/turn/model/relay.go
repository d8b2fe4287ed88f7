package model

import (
	"cmp"
	"net/url"
	"strings"

	"parley/proto/agentpb"
)

// What those need who pass requests on to an OpenAI-compatible provider as they are, beside the adapters.

// OpenAIURL is where a path ("/embeddings") of a model's OpenAI-compatible service is. An *Error says that the model's base
// URL is none.
func OpenAIURL(model *agentpb.Model, path string) (*url.URL, error) {
	base, err := url.Parse(cmp.Or(model.GetBaseUrl(), openAIHome))
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, invalid("the model's base URL is not an http or https URL")
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + path
	base.RawPath, base.Fragment, base.RawFragment = "", "", ""
	return base, nil
}
