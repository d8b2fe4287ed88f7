package filing

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Decode decodes a file sent as base64, in either alphabet, with or without padding.
func Decode(name, content, declared string) (*Incoming, *machine.Failure) {
	name, refused := CleanName(name)
	if refused != nil {
		return nil, refused
	}
	encoding := base64.StdEncoding
	content = strings.TrimRight(content, "=\r\n")
	if strings.ContainsAny(content, "-_") {
		encoding = base64.URLEncoding
	}
	decoded, err := encoding.WithPadding(base64.NoPadding).DecodeString(content)
	if err != nil || content == "" {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.FileNotBase64).Param("name", name)
	}
	return &Incoming{Name: name, Declared: declared, Body: bytes.NewReader(decoded), Length: int64(len(decoded))}, nil
}

// policy prevents active content from running when a browser shows a file.
const policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// Download answers with a file's bytes. Types that are not known to be harmless are sent as attachments.
func Download(ctx context.Context, files endpoint.Files, file *conversationpb.File) *endpoint.File {
	kind := "attachment"
	if harmless(file.GetMimeType()) {
		kind = "inline"
	}
	out := &endpoint.File{
		ContentType: contentTypeOf(file), Size: file.GetSize(),
		Header: map[string]string{
			"Content-Disposition":     endpoint.Disposition(kind, file.GetName()),
			"Content-Security-Policy": policy,
			"Cache-Control":           "private, no-cache",
		},
		Open: func(offset, length int64) (io.ReadCloser, error) { return files.Open(ctx, file, offset, length) },
	}
	if len(file.GetSha256()) > 0 {
		out.ETag = `"` + hex.EncodeToString(file.GetSha256()) + `"`
	}
	return out
}

// harmless says whether a browser may show a type inline: it has no active content.
func harmless(mimeType string) bool {
	switch MediaType(mimeType) {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", plainText:
		return true
	}
	return strings.HasPrefix(mimeType, "audio/") || strings.HasPrefix(mimeType, "video/")
}

// contentTypeOf is the Content-Type of a download. Text is UTF-8, if it was not said otherwise.
func contentTypeOf(file *conversationpb.File) string {
	mimeType := file.GetMimeType()
	switch {
	case mimeType == "":
		return "application/octet-stream"
	case strings.HasPrefix(mimeType, "text/") && !strings.Contains(mimeType, ";"):
		return mimeType + "; charset=utf-8"
	}
	return mimeType
}
