package audio

import (
	"errors"
	"io"
	"mime/multipart"
	"strings"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// readForm reads a multipart form. The recording is the part called file, whether or not it has a name of a file.
func (r *received) readForm(from *meter, boundary string) error {
	form := multipart.NewReader(from, boundary)
	for {
		part, err := form.NextRawPart()
		switch {
		case err == io.EOF: //nolint:errorlint // the end of a form is exactly this; that of bytes that are cut wraps it
			return nil
		case err != nil:
			return malformed(err)
		}
		if part.FormName() == "file" {
			r.fileName, r.contentType = part.FileName(), part.Header.Get("Content-Type")
			from.free = true
			err = r.keep(part)
			from.free = false
		} else {
			err = r.field(part)
		}
		if err != nil {
			return malformed(err)
		}
	}
}

// field reads a field that is a text.
func (r *received) field(part *multipart.Part) error {
	value, err := io.ReadAll(io.LimitReader(part, maxText+1))
	switch {
	case err != nil:
		return err
	case part.FileName() != "": // no field that is known
		return r.text("", "")
	case len(value) > maxText:
		return failure.New(failurepb.Code_VALIDATION, failure.TooLargeOf).In(part.FormName()).Param("most", maxText)
	}
	text := strings.ToValidUTF8(string(value), "\uFFFD")
	switch name := part.FormName(); name {
	case "timestamp_granularities[]", "timestamp_granularities":
		if r.granularities = append(r.granularities, text); len(r.granularities) > maxFields {
			return errors.New("too many of a field")
		}
		return nil
	default:
		return r.text(name, text)
	}
}

func malformed(err error) error {
	return otherwise(err, failure.New(failurepb.Code_VALIDATION, failure.MalformedForm))
}
