package turn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"parley/actors/turn/document"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

const (
	// maxImage bounds one image for a model, in bytes: the least of the providers' limits.
	maxImage = 5 << 20
	// maxImages bounds the images of a window, and maxImageBytes their bytes in all.
	maxImages     = 8
	maxImageBytes = 16 << 20
	// maxDocuments bounds the documents that are read for a window.
	maxDocuments = 16
	// bytesPerToken converts room in the window, in tokens, to a limit in bytes.
	bytesPerToken = 3
)

// attachments reads the files of messages for one context window: images unchanged if the agent's model accepts them,
// otherwise the text of documents. For other files the model gets the name and the reason.
type attachments struct {
	files     Files
	documents Documents
	tenant    string // whose turn it is
	texts     *texts
	agent     *agentpb.Agent
	log       *slog.Logger
	admit     func(ctx context.Context, file *conversationpb.FileRef, text string) (left, note string)

	images, imageBytes, read int
}

// codeDocuments is the error code of a turn whose documents nobody had time to read. Without them the model would answer as if
// they were not there.
const codeDocuments = "documents_unavailable"

// to adds a message's files to it, documents up to so many tokens. The error is that of ctx, or says that there was no time to
// read one: a file that cannot be read does not end the turn.
func (a *attachments) to(ctx context.Context, message *model.Message, files []*conversationpb.FileRef, tokens int) error {
	limit := tokens * bytesPerToken
	for _, file := range files {
		var note string
		switch {
		case a.files == nil:
			note = "it cannot be read here"
		case a.showable(file):
			note = a.show(ctx, message, file)
		default:
			known, err := a.text(ctx, file, limit)
			if err != nil {
				return err
			}
			note = known.problem
			if note == "" && a.admit != nil {
				known.text, note = a.admit(ctx, file, known.text)
			}
			if note == "" {
				limit -= len(known.text)
				appendBlock(message, file, known.text)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if note != "" {
			appendNote(message, file, note)
		}
	}
	return nil
}

// showable reports whether the model accepts a file as an image.
func (a *attachments) showable(file *conversationpb.FileRef) bool {
	return a.agent.GetCapabilities().GetAttachments().GetAcceptsImages() &&
		model.CanShow(file.GetMimeType())
}

// show adds an image, or says why not.
func (a *attachments) show(ctx context.Context, message *model.Message, file *conversationpb.FileRef) string {
	if file.GetSize() > maxImage || a.images == maxImages || a.imageBytes+int(file.GetSize()) > maxImageBytes {
		return "the image is too large to be shown"
	}
	reader, err := a.files.Open(ctx, file.GetId())
	if err != nil {
		return "it is not there any more"
	}
	defer func() { _ = reader.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(reader, maxImage+1))
	if err != nil || len(data) > maxImage {
		return "it could not be read"
	}
	a.images++
	a.imageBytes += len(data)
	message.Images = append(message.Images, model.Image{MIME: file.GetMimeType(), Data: data})
	return ""
}

// text returns a document's text, or the reason why there is none.
func (a *attachments) text(ctx context.Context, file *conversationpb.FileRef, limit int) (docText, error) {
	if strings.HasPrefix(file.GetMimeType(), "image/") {
		return docText{problem: "images are not shown to this model"}, nil
	}
	if a.read == maxDocuments || limit <= 0 {
		return docText{problem: "it was left out"}, nil
	}
	a.read++
	reader, err := a.files.Open(ctx, file.GetId())
	if err != nil {
		return docText{problem: "it is not there any more"}, nil
	}
	defer func() { _ = reader.Close() }() // it was only read
	if known, found := a.texts.find(file.GetId(), limit); found {
		return known, nil
	}
	known := docText{id: file.GetId(), limit: limit}
	text, err := a.documents(ctx, a.tenant, file.GetMimeType(), reader, limit)
	switch {
	case err == nil:
		known.text = strings.ToValidUTF8(text, "\uFFFD")
	case ctx.Err() != nil:
		return docText{}, context.Cause(ctx)
	case errors.Is(err, document.ErrUnsupported):
		known.problem = "it has no text that can be read"
	case errors.Is(err, document.ErrUnreadable): // a retry would cost as much and fail again
		known.problem = "it could not be read: it is damaged, protected or too large"
		a.log.Warn("a document cannot be read", slog.String("file", file.GetId()), slog.String("type", file.GetMimeType()), slog.Any("err", err))
	case errors.Is(err, document.ErrBusy):
		return docText{}, &model.Error{
			Code: codeDocuments, Message: "The turn's documents could not be read: too many are being read. Try again later.", Err: err,
		}
	default: // its bytes do not come: they may never do, and the conversation goes on
		return docText{problem: "it could not be read at present"}, nil
	}
	a.texts.keep(known)
	return known, nil
}

// appendBlock adds a document's text under its name. The label tells the model that the text is not written by the user.
func appendBlock(message *model.Message, file *conversationpb.FileRef, text string) {
	appendPart(message, fmt.Sprintf("<file name=%q type=%q>\n%s\n</file>", file.GetName(), file.GetMimeType(),
		strings.ReplaceAll(text, "</file>", "<\\/file>")))
}

func appendNote(message *model.Message, file *conversationpb.FileRef, note string) {
	appendPart(message, fmt.Sprintf("<file name=%q type=%q>(%s)</file>", file.GetName(), file.GetMimeType(), note))
}

func appendPart(message *model.Message, part string) {
	if message.Content != "" {
		message.Content += separator
	}
	message.Content += part
}
