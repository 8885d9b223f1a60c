"""What people look at: the page of a training, of a result, and the operator's."""
