package model

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

func TestEveryProviderHasAnAdapter(t *testing.T) {
	providers := New(Config{Registerer: prometheus.NewPedanticRegistry()})
	defer providers.Close()
	for number := range agentpb.Provider_name {
		kind := agentpb.Provider(number)
		if kind == agentpb.Provider_PROVIDER_UNSPECIFIED {
			require.NotContains(t, providers, kind)
			require.Equal(t, "unknown", providerName(kind))
			continue
		}
		require.Contains(t, providers, kind)
		require.NotEqual(t, "unknown", providerName(kind))
	}
	providers.Close()
}

func TestDefaultConfig(t *testing.T) {
	config := DefaultConfig()
	require.NoError(t, config.Validate())
	require.NoError(t, Config{}.Validate())
	value := reflect.ValueOf(config)
	for i := range value.NumField() {
		switch name := value.Type().Field(i).Name; name {
		case "Proxy", "Registerer": // none is the default
		default:
			require.False(t, value.Field(i).IsZero(), name)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	for name, config := range map[string]Config{
		"first_token_timeout": {FirstTokenTimeout: -1},
		"idle_conn_timeout":   {IdleConnTimeout: -time.Second},
		"size limit":          {MaxAnswerBytes: -1},
		"connection limit":    {MaxConnsPerHost: -1},
		"max_retries":         {MaxRetries: -2},
		"words_per_second":    {WordsPerSecond: math.NaN()},
	} {
		require.ErrorContains(t, config.Validate(), name)
	}
	require.NoError(t, Config{MaxRetries: -1}.Validate())
}
