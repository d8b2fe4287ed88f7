package responses

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/failurepb"
)

// TestMessageParts: what the content of a message may hold; the rest is refused, never left out.
func TestMessageParts(t *testing.T) {
	for _, c := range []struct {
		name, parts string
		text        string
		files       []string
		inline      string // name and bytes of the file that comes with it
		refused     string
	}{
		{name: "texts", parts: `{"type":"input_text","text":"a"},{"type":"text","text":"b"}`, text: "a\nb"},
		{name: "files by id", parts: `{"type":"input_file","file_id":"f"},{"type":"file","file_id":"g"},{"type":"input_image","file_id":"h"}`, files: []string{"f", "g", "h"}},
		{name: "image", parts: `{"type":"input_image","detail":"low","image_url":"data:image/png;base64,aGk="}`, inline: "image-1.png hi"},
		{name: "image of chats", parts: `{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,aGk="}}`, inline: "image-1.jpeg hi"},
		{name: "file", parts: `{"type":"input_file","filename":"a.txt","file_data":"aGk="}`, inline: "a.txt hi"},
		{name: "file in a data URL", parts: `{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;charset=utf-8;base64,aGk="}`, inline: "a.txt hi"},
		{name: "image of the web", parts: `{"type":"input_image","image_url":"https://example.com/a.png"}`, refused: "image_url must be a data URL of an image in base64: pictures of the web are not fetched"},
		{name: "image of the web of chats", parts: `{"type":"image_url","image_url":{"url":"http://example.com/a.png"}}`, refused: "image_url must be a data URL of an image in base64: pictures of the web are not fetched"},
		{name: "data URL of something else", parts: `{"type":"input_image","image_url":"data:text/plain;base64,aGk="}`, refused: "image_url must be a data URL of an image in base64: pictures of the web are not fetched"},
		{name: "data URL without base64", parts: `{"type":"input_image","image_url":"data:image/svg+xml,<svg/>"}`, refused: "image_url must be a data URL of an image in base64: pictures of the web are not fetched"},
		{name: "image without anything", parts: `{"type":"input_image"}`, refused: "an image part needs an image_url or a file_id"},
		{name: "image of a number", parts: `{"type":"input_image","image_url":5}`, refused: "an image part needs an image_url or a file_id"},
		{name: "file of the web", parts: `{"type":"input_file","file_url":"https://example.com/a"}`, refused: "file_url is not fetched: send the file as file_data, or store it and name its file_id"},
		{name: "file without anything", parts: `{"type":"input_file"}`, refused: "a file part needs a file_id, or file_data and a filename"},
		{name: "file without a name", parts: `{"type":"input_file","file_data":"aGk="}`, refused: "the name of a file is required"},
		{name: "no base64", parts: `{"type":"input_image","image_url":"data:image/png;base64,!!"}`, refused: `the content of file "image-1.png" is not base64`},
		{name: "unknown part", parts: `{"type":"input_audio","input_audio":{}}`, refused: `parts of type "input_audio" are not supported`},
		{name: "part without a type", parts: `{"text":"x"}`, refused: `parts of type "" are not supported`},
		{name: "no part", parts: `5`, refused: "the content of a message must be a string or an array of parts"},
		{name: "the first mistake counts", parts: `{"type":"a"},{"type":"b"}`, refused: `parts of type "a" are not supported`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in messageInput
			require.NoError(t, json.Unmarshal([]byte(`[{"role":"user","content":[`+c.parts+`]}]`), &in))
			files, failure := in.incoming()
			if in.failure != nil {
				failure = in.failure
			}
			if c.refused != "" {
				require.NotNil(t, failure)
				require.Equal(t, c.refused, failure.DefaultText())
				require.Contains(t, []failurepb.Code{failurepb.Code_INVALID_REQUEST, failurepb.Code_VALIDATION}, failure.Code)
				return
			}
			require.Nil(t, failure)
			require.Equal(t, c.text, in.Text)
			require.Equal(t, c.files, in.Files)
			got := ""
			for _, file := range files {
				raw, err := io.ReadAll(file.Body)
				require.NoError(t, err)
				got += file.Name + " " + string(raw)
			}
			require.Equal(t, c.inline, got)
		})
	}
}
