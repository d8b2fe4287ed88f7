package model

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
)

// members is a JSON object of a request. What is written here is a fraction of what a service's own client knows: those for Go that the services publish
// take a third of the processor time of building all of Parley, and of the requests they would write only what stands in this package.
type members map[string]any

// with sets a member that is not empty.
func (m members) with(name, value string) members {
	if value != "" {
		m[name] = value
	}
	return m
}

// flag sets a member that is known.
func (m members) flag(name string, value *bool) members {
	if value != nil {
		m[name] = *value
	}
	return m
}

// sampling sets what the agent says of chance, as all dialects call it.
func (q *question) sampling(body members) {
	model := q.agent.GetModel()
	if model.GetHasTemperature() && q.takes("temperature") {
		body["temperature"] = model.GetTemperature()
	}
	if model.GetHasTopP() && q.takes("top_p") {
		body["top_p"] = model.GetTopP()
	}
}

// post asks for an answer in pieces. Settings.Extra goes over the body, the headers of the agent's model over the dialect's.
func (q *question) post(ctx context.Context, path string, headers map[string]string, body members) (*http.Response, error) {
	for name, value := range q.settings.Extra {
		body[name] = value
	}
	body["stream"] = true
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, invalid("the request holds what is not JSON")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(q.base, "/")+path, bytes.NewReader(encoded.Bytes()))
	if err != nil {
		return nil, invalid("the base_url of the agent's model is not an http or https URL")
	}
	request.URL.RawQuery = q.query.Encode()
	all := map[string]string{"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "parley"}
	maps.Copy(all, headers)
	for _, some := range []map[string]string{all, q.agent.GetModel().GetHeaders()} {
		for name, value := range some {
			request.Header.Set(name, value)
		}
	}
	return q.http.Do(request)
}

// bearer is the key of the agent's model as the OpenAI-compatible services take it.
func (q *question) bearer() map[string]string {
	key := q.agent.GetModel().GetApiKey()
	if key == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + key}
}
