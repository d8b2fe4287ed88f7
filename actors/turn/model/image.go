package model

import "encoding/base64"

// dataURL is an image as the OpenAI-compatible services take it.
func dataURL(image Image) string {
	if image.URL != "" {
		return image.URL
	}
	return "data:" + image.MIME + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
}
