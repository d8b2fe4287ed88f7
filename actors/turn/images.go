package turn

import "parley/actors/turn/model"

// maxHeldImages bounds the images of tools that all turns of a node keep, in bytes.
const maxHeldImages = 256 << 20

// imagesOfResults stands beside the images of results, which not every dialect takes in the results themselves.
const imagesOfResults = "The images of these results, in their order:"

// keepImages keeps the images of a result for the model, as long as the turn runs here: the journal has their descriptions. It
// returns what the model is told of those that it is not shown.
func (l *modelLoop) keepImages(c *toolCall, images []model.Image) string {
	if len(images) > 0 && !l.agent.GetCapabilities().GetAttachments().GetAcceptsImages() {
		return "\n[images are not shown to this model]"
	}
	for _, image := range images {
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
	}
	return ""
}

// dropImages gives their memory back.
func (l *modelLoop) dropImages() {
	l.runner.images.Add(-l.tools.imageBytes)
	l.tools.imageBytes = 0
}
