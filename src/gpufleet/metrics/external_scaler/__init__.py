"""The external scaler that KEDA asks over gRPC, over the same values as the metrics APIs."""
