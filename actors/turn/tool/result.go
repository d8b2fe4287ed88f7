package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/actors/machine/rawjson"
	"parley/actors/turn/model"
)

// Result is what a tool answered.
type Result struct {
	Text string
	// Images are of the answer; Text says where they were.
	Images []model.Image
}

// Limits of the images of one result. The rest is told in its text.
const (
	maxImages = 8
	maxImage  = 5 << 20
)

// callResult is the result of an MCP tool. What cannot be read in one of its parts does not lose the others.
type callResult struct {
	Content    json.RawMessage `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	Former     json.RawMessage `json:"toolResult"` // the first version of the protocol had no content
	IsError    json.RawMessage `json:"isError"`
	ResultType string          `json:"resultType"`
}

func readResult(raw json.RawMessage) (*callResult, error) {
	read := new(callResult)
	if err := json.Unmarshal(raw, read); err != nil {
		return nil, failure("the tool's answer is not a result of the protocol")
	}
	return read, nil
}

func (r *callResult) needsInput() bool { return r.ResultType == "input_required" }

func (r *callResult) failed() bool { return strings.Trim(string(r.IsError), `"`) == "true" }

// shown returns a result for a model. Structured content that no text repeats comes last, as it came.
func (r *callResult) shown() Result {
	var made Result
	var texts []string
	for _, raw := range parts(r.Content) {
		var one part
		if json.Unmarshal(raw, &one) != nil {
			one = part{Type: "?"}
		}
		texts = append(texts, made.add(&one, raw))
	}
	for _, raw := range []json.RawMessage{r.Structured, r.Former} {
		if !rawjson.IsNull(raw) && !slices.ContainsFunc(texts, func(text string) bool { return sameJSON([]byte(text), raw) }) {
			texts = append(texts, compacted(raw))
		}
	}
	made.Text = strings.Join(texts, "\n")
	return made
}

// parts are those of the content, which some servers give as one part, or as text.
func parts(content json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if rawjson.IsNull(content) || json.Unmarshal(content, &list) == nil {
		return list
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		content, _ = json.Marshal(part{Type: "text", Text: text}) // strings
	}
	return []json.RawMessage{content}
}

// part is one part of a result's content.
type part struct {
	Type        string        `json:"type"`
	Text        string        `json:"text"`
	MIMEType    string        `json:"mimeType"`
	Data        string        `json:"data"`
	URI         string        `json:"uri"`
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Resource    *resourcePart `json:"resource"`
}

type resourcePart struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     string  `json:"blob"`
}

// add takes the image of a part, and returns its text.
func (r *Result) add(one *part, raw json.RawMessage) string {
	switch {
	case one.Type == "text":
		return one.Text
	case one.Type == "image":
		return r.binary("an image", one.MIMEType, one.Data)
	case one.Type == "audio":
		return r.binary("a sound", one.MIMEType, one.Data)
	case one.Type == "resource_link":
		text := fmt.Sprintf("(a resource, %s: %s", one.Name, one.URI)
		if one.MIMEType != "" {
			text += ", " + one.MIMEType
		}
		if one.Description != "" {
			text += ": " + one.Description
		}
		return text + ")"
	case one.Type == "resource" && one.Resource != nil:
		if one.Resource.Text != nil {
			return *one.Resource.Text
		}
		return r.binary("a resource, "+one.Resource.URI, one.Resource.MIMEType, one.Resource.Blob)
	default: // of a kind that came later: the model may know it
		return compacted(raw)
	}
}

// binary takes an image that models can be shown, and describes what there is. Text in it is text.
func (r *Result) binary(what, kind, encoded string) string {
	data, err := decodeBase64(encoded)
	if err != nil {
		return fmt.Sprintf("(%s, %s, whose data cannot be read)", what, kind)
	}
	if found := http.DetectContentType(data); model.CanShow(found) {
		if len(r.Images) < maxImages && len(data) <= maxImage {
			r.Images = append(r.Images, model.Image{MIME: found, Data: data})
		}
		kind = found
	} else if textual(kind) && utf8.Valid(data) {
		return string(data)
	}
	return fmt.Sprintf("(%s, %s, %d bytes)", what, kind, len(data))
}

// decodeBase64 reads base64 in all the ways that it is written.
func decodeBase64(text string) ([]byte, error) {
	if strings.HasPrefix(text, "data:") {
		_, text, _ = strings.Cut(text, ",")
	}
	text = strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "").Replace(text)
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
}

// compacted is JSON without blanks, its values as they are.
func compacted(raw json.RawMessage) string {
	var text bytes.Buffer
	if json.Compact(&text, raw) != nil {
		return string(raw)
	}
	return text.String()
}

// sameJSON reports whether two texts are JSON of the same value.
func sameJSON(one, other []byte) bool {
	var values [2]any
	for index, text := range [][]byte{one, other} {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if decoder.Decode(&values[index]) != nil || decoder.More() {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
