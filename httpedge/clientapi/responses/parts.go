package responses

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/filing"
)

// messageInput is the message to answer: its text, the files that it names, and those that come with it. Empty when the input has
// none.
type messageInput struct {
	Text  string
	Files []string

	inline  []inlineFile
	stored  []string         // ids of the inline files, once they are files of the session
	failure *failure.Failure // told after the agent
}

// inlineFile is a file that comes as base64.
type inlineFile struct{ name, content, declared string }

// check refuses an empty message, and one with parts that are not supported. Files need no words.
func (m *messageInput) check() *failure.Failure {
	if strings.TrimSpace(m.Text) == "" && len(m.Files)+len(m.inline) == 0 {
		return handler.Invalid(failure.InputRequired).In("input")
	}
	return m.failure
}

// files is the ids of all files of the message.
func (m *messageInput) files() []string { return slices.Concat(m.Files, m.stored) }

// incoming decodes the files that come with the message.
func (m *messageInput) incoming() ([]*filing.Incoming, *failure.Failure) {
	files := make([]*filing.Incoming, len(m.inline))
	for i, file := range m.inline {
		decoded, refused := filing.Decode(file.name, file.content, file.declared)
		if refused != nil {
			return nil, refused
		}
		files[i] = decoded
	}
	return files, nil
}

// UnmarshalJSON never fails: an empty or malformed input is refused when its turn comes.
func (m *messageInput) UnmarshalJSON(raw []byte) error {
	*m = messageInput{}
	if json.Unmarshal(raw, &m.Text) == nil {
		return nil
	}
	m.Text = ""
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil //nolint:nilerr // see above
	}
	for i := len(items) - 1; i >= 0; i-- {
		var item struct {
			Role    string       `json:"role"`
			Content contentInput `json:"content"`
		}
		if json.Unmarshal(items[i], &item) == nil && item.Role == "user" {
			m.read(item.Content.RawMessage)
			return nil
		}
	}
	return nil
}

// Either implements openapi.Either.
func (m messageInput) Either() []any { return []any{"", []responseItem{}} }

// contentInput is the content of a message item.
type contentInput = wire.TextOr[[]messagePart]

// messagePart is a part of the content of a message.
type messagePart struct {
	Type     string                `json:"type" enum:"input_text,output_text,text,refusal,input_file,file,input_image,image_url"`
	Text     string                `json:"text"`
	Refusal  string                `json:"refusal"`
	FileID   string                `json:"file_id"`
	FileData string                `json:"file_data" doc:"base64, or a data URL"`
	FileURL  string                `json:"file_url"`
	Filename string                `json:"filename"`
	ImageURL wire.TextOr[imageURL] `json:"image_url"`
}

type imageURL struct {
	URL string `json:"url" doc:"A data URL"`
}

// read takes the content of a message item: a text, or parts. A part that is not supported is refused, never dropped.
func (m *messageInput) read(content []byte) {
	if json.Unmarshal(content, &m.Text) == nil {
		return
	}
	m.Text = ""
	var parts []messagePart
	if json.Unmarshal(content, &parts) != nil {
		m.failure = handler.Invalid(failure.BadContent)
		return
	}
	var texts []string
	for i := range parts {
		part := &parts[i]
		var refused *failure.Failure
		switch part.Type {
		case "input_text", "output_text", "text":
			texts = append(texts, part.Text)
		case "refusal":
			texts = append(texts, part.Refusal)
		case "input_file", "file":
			refused = m.file(part)
		case "input_image", "image_url":
			refused = m.image(part)
		default:
			const longest = 64
			refused = handler.Invalid(failure.PartTypeNotSupported).Param("type", fmt.Sprintf("%.*s", longest, part.Type))
		}
		if m.failure == nil {
			m.failure = refused
		}
	}
	m.Text = strings.Join(texts, "\n")
}

// file takes a file of the session, or one that comes as base64 or in a data URL.
func (m *messageInput) file(part *messagePart) *failure.Failure {
	switch {
	case part.FileID != "":
		m.Files = append(m.Files, part.FileID)
		return nil
	case part.FileURL != "":
		return handler.Invalid(failure.FileURLNotFetched)
	case part.FileData == "":
		return handler.Invalid(failure.IncompleteFilePart)
	}
	declared, content, ok := dataURL(part.FileData)
	if !ok {
		content = part.FileData
	}
	m.inline = append(m.inline, inlineFile{name: part.Filename, content: content, declared: declared})
	return nil
}

// image takes a picture of the session, or one in a data URL.
func (m *messageInput) image(part *messagePart) *failure.Failure {
	if part.FileID != "" {
		m.Files = append(m.Files, part.FileID)
		return nil
	}
	var object imageURL
	if given := part.ImageURL.RawMessage; json.Unmarshal(given, &object.URL) != nil && json.Unmarshal(given, &object) != nil || object.URL == "" {
		return handler.Invalid(failure.IncompleteImagePart)
	}
	declared, content, ok := dataURL(object.URL)
	ending, isImage := strings.CutPrefix(filing.MediaType(declared), "image/")
	if !ok || !isImage {
		return handler.Invalid(failure.ImageNotInline)
	}
	name := "image-" + strconv.Itoa(len(m.inline)+1) + "." + ending
	m.inline = append(m.inline, inlineFile{name: name, content: content, declared: declared})
	return nil
}

// dataURL splits a data URL in base64.
func dataURL(address string) (mediaType, content string, ok bool) {
	rest, isData := strings.CutPrefix(address, "data:")
	head, content, found := strings.Cut(rest, ",")
	declared, packed := strings.CutSuffix(head, ";base64")
	return declared, content, isData && found && packed
}
