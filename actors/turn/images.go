package turn

import (
	"context"
	"io"
	"log/slog"
	"time"

	"parley/actors/turn/model"
	"parley/proto/conversationpb"
)

const (
	// maxHeldImages bounds the images of tools that all turns of a node keep, in bytes.
	maxHeldImages = 256 << 20
	// imageTimeout bounds keeping, reading or dropping one image: without it the turn goes on.
	imageTimeout = 5 * time.Second
)

// imagesOfResults stands beside the images of results, which not every dialect takes in the results themselves.
const imagesOfResults = "The images of these results, in their order:"

// keepImages keeps the images of a result for the model, in memory and, for a turn that pauses or is recovered, beside the journal. It
// returns what the model is told of those that it is not shown.
func (l *modelLoop) keepImages(ctx context.Context, c *toolCall, images []model.Image) (kept []*conversationpb.ResultImage, note string) {
	if len(images) > 0 && !l.agent.GetCapabilities().GetAttachments().GetAcceptsImages() {
		return nil, "\n[images are not shown to this model]"
	}
	for _, image := range images {
		if note = l.hold(c, image); note != "" {
			break
		}
		if file := l.store(ctx, image); file != nil {
			kept = append(kept, &conversationpb.ResultImage{CallId: l.tools.calls[c.at].GetId(), File: file})
		}
	}
	return kept, note
}

// hold keeps an image in memory, or says why not.
func (l *modelLoop) hold(c *toolCall, image model.Image) string {
	size := int64(len(image.Data))
	if l.tools.images == maxImages || l.tools.imageBytes+size > maxImageBytes {
		return "\n[not all images are shown: there are too many in this turn]"
	}
	if l.runner.images.Add(size) > maxHeldImages {
		l.runner.images.Add(-size)
		return "\n[not all images are shown: the server has no room for them at present]"
	}
	l.tools.images++
	l.tools.imageBytes += size
	c.images = append(c.images, image)
	return ""
}

// store keeps an image's bytes until the turn ends. Of one that is not kept the model has the description, once the turn has paused.
func (l *modelLoop) store(ctx context.Context, image model.Image) *conversationpb.FileRef {
	if l.runner.config.Images == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, imageTimeout)
	defer cancel()
	file, err := l.runner.config.Images.Keep(ctx, &l.run.job, image.MIME, image.Data)
	if err != nil {
		l.runner.config.Logger.LogAttrs(ctx, slog.LevelWarn, "an image of a tool is not kept", about(l.run, err)...)
		return nil
	}
	l.run.kept = append(l.run.kept, file.GetId())
	return file
}

// recallImages reads the images of a journalled result again.
func (l *modelLoop) recallImages(ctx context.Context, c *toolCall, kept []*conversationpb.ResultImage) {
	for _, one := range kept {
		file := one.GetFile()
		if one.GetCallId() != l.tools.calls[c.at].GetId() || file.GetSize() > maxImageBytes {
			continue
		}
		l.run.kept = append(l.run.kept, file.GetId())
		if l.runner.config.Files == nil || !l.agent.GetCapabilities().GetAttachments().GetAcceptsImages() {
			continue
		}
		data, err := l.read(ctx, file)
		if err != nil {
			l.runner.config.Logger.LogAttrs(ctx, slog.LevelWarn, "an image of a tool is gone", about(l.run, err)...)
			continue
		}
		l.hold(c, model.Image{MIME: file.GetMimeType(), Data: data})
	}
}

func (l *modelLoop) read(ctx context.Context, file *conversationpb.FileRef) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, imageTimeout)
	defer cancel()
	reader, err := l.runner.config.Files.Open(ctx, file.GetId())
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(reader, file.GetSize()))
}

// dropImages gives their memory back.
func (l *modelLoop) dropImages() {
	l.runner.images.Add(-l.tools.imageBytes)
	l.tools.imageBytes = 0
}

// forget removes the images that were kept for a turn that has ended. What stays goes when its time is over.
func (r *Runner) forget(ctx context.Context, t *run) {
	if r.config.Images == nil {
		return
	}
	for _, id := range t.kept {
		bounded, cancel := context.WithTimeout(ctx, imageTimeout)
		if err := r.config.Images.Drop(bounded, id); err != nil {
			r.config.Logger.LogAttrs(ctx, slog.LevelDebug, "an image of a tool stays for its time", about(t, err)...)
		}
		cancel()
	}
}
