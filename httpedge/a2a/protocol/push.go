package protocol

import (
	"encoding/json"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"parley/httpedge/endpoint/wire"
)

// Bounds of a push notification config.
const (
	maxPushID     = 128
	maxPushURL    = 2048
	maxPushScheme = 32
	maxPushSecret = 1024 // a token
	maxPushProof  = 2048 // credentials
)

// PushConfig is where a client wants to be told of a task. What marshals is kept sealed.
type PushConfig struct {
	ID          string `json:"-"`
	URL         string `json:"url"`
	Token       string `json:"token,omitempty"`
	Scheme      string `json:"scheme,omitempty"`
	Credentials string `json:"credentials,omitempty"`
}

// pushIn is a config in the form of either version: 0.3 names several schemes, of which the first is used.
type pushIn struct {
	ID             string `json:"id"`
	URL            string `json:"url"`
	Token          string `json:"token"`
	Authentication *struct {
		Schemes     []string `json:"schemes"`
		Scheme      string   `json:"scheme"`
		Credentials string   `json:"credentials"`
	} `json:"authentication"`
}

// readPush reads a config, nil where there is none. Nothing of it is passed over: what could not be sent is refused.
func readPush(raw json.RawMessage) (*PushConfig, *Error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil //nolint:nilnil // none is asked for
	}
	var in pushIn
	if !isObject(raw) || json.Unmarshal(raw, &in) != nil {
		return nil, badPush("an object with url, and strings in token and authentication")
	}
	config := &PushConfig{ID: in.ID, URL: in.URL, Token: in.Token}
	if auth := in.Authentication; auth != nil {
		config.Credentials = auth.Credentials
		if config.Scheme = auth.Scheme; config.Scheme == "" && len(auth.Schemes) > 0 {
			config.Scheme = auth.Schemes[0]
		}
		if config.Scheme == "" || config.Credentials == "" {
			return nil, badPush("authentication needs a scheme and the credentials to send")
		}
	}
	return config, config.check()
}

func badPush(why string) *Error { return InvalidParams("the push notification config: %s", why) }

func (p *PushConfig) check() *Error {
	target, err := url.Parse(p.URL)
	switch {
	case err != nil, target.Hostname() == "", target.Scheme != "http" && target.Scheme != "https", target.User != nil, len(p.URL) > maxPushURL:
		return badPush("url must be an absolute http or https URL without a user, of at most 2048 bytes")
	case len(p.ID) > maxPushID || strings.ContainsFunc(p.ID, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return badPush("id must be at most 128 bytes without control characters")
	case len(p.Token) > maxPushSecret || !sendable(p.Token):
		return badPush("token must be at most 1024 visible ASCII characters")
	case len(p.Credentials) > maxPushProof || !sendable(p.Credentials):
		return badPush("authentication.credentials must be at most 2048 visible ASCII characters")
	case p.Scheme != "" && !httpguts.ValidHeaderFieldName(p.Scheme), len(p.Scheme) > maxPushScheme:
		return badPush("authentication's scheme must be the name of one, such as Bearer")
	}
	return nil
}

// sendable says that a header can carry a text as it is.
func sendable(text string) bool {
	return strings.TrimSpace(text) == text && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// Header is what a notification carries besides its body.
func (p *PushConfig) Header(version Version) map[string]string {
	header := map[string]string{}
	if version == V10 {
		header["Content-Type"] = "application/a2a+json"
	}
	if p.Token != "" {
		header["X-A2A-Notification-Token"] = p.Token
	}
	if p.Scheme != "" {
		header["Authorization"] = p.Scheme + " " + p.Credentials
	}
	return header
}

// PushParams is the parameters of what is about the configs of a task.
type PushParams struct {
	TaskID string
	ID     string      // of a config, "" = not said
	Config *PushConfig // to set
}

// ReadPushParams reads them.
func ReadPushParams(params json.RawMessage, method Method) (*PushParams, *Error) {
	var in struct {
		TaskID   string          `json:"taskId"`
		ID       string          `json:"id"`
		ConfigID string          `json:"pushNotificationConfigId"`
		Config   json.RawMessage `json:"pushNotificationConfig"`
	}
	if !isObject(params) || json.Unmarshal(params, &in) != nil {
		return nil, InvalidParams("taskId and id must be strings")
	}
	read := &PushParams{TaskID: in.TaskID, ID: in.ID}
	raw := params // 1.0: the parameters are the config
	if method.Version == V03 {
		raw, read.ID = in.Config, in.ConfigID
		if method.Operation != SetPush {
			read.TaskID = in.ID
		}
	}
	if method.Operation != SetPush {
		return read, nil
	}
	config, failed := readPush(raw)
	if failed == nil && config == nil {
		failed = badPush("it is missing")
	}
	read.Config = config
	return read, failed
}

// ShownPush is a config as it is shown: without its secrets.
type ShownPush struct {
	TaskID, ID, URL, Scheme string
}

// Append writes the config.
func (p *ShownPush) Append(dst []byte, version Version) []byte {
	dst = wire.AppendMember(dst, `{"taskId":`, p.TaskID)
	if version == V03 {
		dst = append(dst, `,"pushNotificationConfig":{`...)
		dst = wire.AppendMember(dst, `"id":`, p.ID)
	} else {
		dst = wire.AppendMember(dst, `,"id":`, p.ID)
	}
	dst = wire.AppendMember(dst, `,"url":`, p.URL)
	switch {
	case p.Scheme == "":
	case version == V03:
		dst = append(wire.AppendMember(dst, `,"authentication":{"schemes":[`, p.Scheme), "]}"...)
	default:
		dst = append(wire.AppendMember(dst, `,"authentication":{"scheme":`, p.Scheme), '}')
	}
	if version == V03 {
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// AppendPushes writes the configs of a task.
func AppendPushes(dst []byte, version Version, all []ShownPush) []byte {
	if version == V10 {
		dst = append(dst, `{"configs":`...)
	}
	dst = append(dst, '[')
	for i := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = all[i].Append(dst, version)
	}
	dst = append(dst, ']')
	if version == V10 {
		return append(dst, '}')
	}
	return dst
}
